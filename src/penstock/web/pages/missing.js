// In the place of a page about something that does not exist: what is similar, and what can be done from here.

import { get } from "../api.js";
import { h } from "../dom.js";
import { best } from "../fuzzy.js";
import { button, empty, groupLink, hash, heading, section, topicLink } from "../widgets.js";
import { create } from "./topics.js";

const SIMILAR_MAX = 5;

// what: "topic", "group" or "message"; parts: as in the address of the page.
export class Missing {
  constructor({ what, parts }, { redraw, refresh }) {
    this.what = what;
    this.parts = parts;
    this.redraw = redraw;
    this.refresh = refresh;
    this.similar = null;
  }

  async look() {
    if (this.similar !== null) return;
    this.similar = [];
    try {
      const { topics, groups } = await get("/v1/overview");
      const list =
        this.what === "group"
          ? groups.map(({ state }) => ({ name: state.group, link: groupOn(state) }))
          : topics.map(({ topic }) => ({ name: topic, link: topicLink(topic) }));
      this.similar = best(this.wanted(), list, SIMILAR_MAX);
    } catch {
      return; // There is nothing to propose.
    }
    this.redraw();
  }

  wanted() {
    return this.what === "message" ? this.parts[0].split(":")[0] : this.parts[this.parts.length - 1];
  }

  view() {
    const [name, group] = this.parts;
    const titles = {
      topic: `There is no topic “${name}”.`,
      group: `There is no group “${group}” on the topic “${name}”.`,
      message: `There is no message “${name}”.`,
    };
    const reasons = {
      topic: "It may have been deleted, or the name is spelled differently.",
      group: "A group is created by its first consumer. This one, or its topic, may have been deleted.",
      message:
        "Retention may have deleted it, or the id is spelled differently. An id looks like orders:0:42: topic, partition, offset.",
    };
    return [
      heading(group ?? name, { before: [h("a", { href: "#/topics" }, "Topics"), " /"] }),
      section(
        "Not found",
        { key: "missing" },
        empty(
          titles[this.what],
          h("p", null, reasons[this.what]),
          this.similar?.length > 0 &&
            h(
              "p",
              null,
              "Did you mean ",
              this.similar.map((each, at) => [at > 0 && ", ", each.link]),
              "?",
            ),
          h("div", { class: "actions" }, this.actions(name)),
        ),
      ),
    ];
  }

  actions(name) {
    return [
      this.what === "topic" &&
        button("Create this topic…", () => create(this.refresh, name), { kind: "primary" }),
      this.what === "group" && h("a", { class: "button", href: hash("topics", name) }, "To the topic"),
      h("a", { class: "button", href: "#/topics" }, "All topics"),
    ];
  }
}

const groupOn = ({ topic, group }) => [groupLink(topic, group), " on ", topic];
