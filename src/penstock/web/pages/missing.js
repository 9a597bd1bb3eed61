// Shown instead of a page whose subject does not exist, with similar names and possible actions.

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
      return; // No suggestions.
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
      topic: "It may have been deleted, or the name may be misspelled.",
      group: "A group is created when its first consumer connects. This group or its topic may have been deleted.",
      message:
        "It may have been deleted by retention, or the ID may be misspelled. A message ID consists of topic, partition and offset, such as orders:0:42.",
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
      this.what === "group" && h("a", { class: "button", href: hash("topics", name) }, "Go to topic"),
      h("a", { class: "button", href: "#/topics" }, "All topics"),
    ];
  }
}

const groupOn = ({ topic, group }) => [groupLink(topic, group), " on ", topic];
