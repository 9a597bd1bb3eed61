// The list of topics, with a filter and a form to create one.

import { post } from "../api.js";
import { ask, note } from "../dialogs.js";
import { h } from "../dom.js";
import { bytes, count, plural, rate } from "../format.js";
import { Glance } from "../glance.js";
import { button, command, empty, field, hash, heading, section, table, topicLink } from "../widgets.js";

export function topicsPage({ redraw, refresh }) {
  const glance = new Glance();
  let wanted = "";

  function view() {
    const found = glance.data.topics.filter((topic) => topic.topic.includes(wanted));
    const filter = h("input", {
      type: "search",
      placeholder: "Filter",
      "aria-label": "Filter topics",
      oninput: (event) => {
        wanted = event.currentTarget.value.trim();
        redraw();
      },
    });
    return [
      heading("Topics", { actions: button("New topic", () => create(refresh), { kind: "primary" }) }),
      section("All topics", { note: plural(found.length, "topic"), side: filter }, topicTable(found, wanted)),
    ];
  }

  return {
    title: "Topics",
    get every() {
      return glance.every;
    },
    refresh: () => glance.refresh(),
    view,
  };
}

export function create(refresh, known = "") {
  ask({
    title: "New topic",
    label: "Create",
    body: () => [
      field(
        "Name",
        h("input", {
          name: "name",
          required: true,
          value: known,
          pattern: "[A-Za-z0-9._\\-]+",
          autocomplete: "off",
          spellcheck: "false",
        }),
        "Letters, digits, dots, dashes and underscores.",
      ),
      field(
        "Partitions",
        h("input", {
          name: "partitions",
          type: "number",
          min: 1,
          max: 10000,
          placeholder: "server default",
        }),
        "Messages are ordered within a partition. You can add partitions later, but not remove them.",
      ),
      field(
        "Keep messages for",
        h("input", { name: "retention", placeholder: "server default" }),
        "For example 7d or 12h.",
      ),
    ],
    act: async ({ name, partitions, retention }) => {
      const options = {};
      if (partitions) options.partitions = Number(partitions);
      if (retention) options.retention = retention;
      await post("/v1/topics", { name, options });
      await refresh();
      location.hash = hash("topics", name);
      note("Topic ", name, " created.");
    },
  });
}

export function topicTable(topics, wanted = "") {
  const deepest = Math.max(1, ...topics.map((topic) => topic.depth));
  return table({
    label: "Topics",
    rows: topics,
    key: (topic) => topic.topic,
    empty: wanted
      ? empty(`No topics match “${wanted}”.`)
      : empty(
          "No topics yet.",
          h("p", null, "Create one here, or by publishing to it:"),
          command("penstock produce orders 'two books' --key anna"),
        ),
    columns: [
      { name: "Topic", head: true, cell: (topic) => topicLink(topic.topic) },
      {
        name: "Waiting",
        number: true,
        cell: (topic) => [
          h(
            "span",
            { class: "meter", "aria-hidden": "true" },
            h("span", { style: { width: `${((topic.depth / deepest) * 100).toFixed(1)}%` } }),
          ),
          h("span", { class: "metered" }, count(topic.depth)),
        ],
      },
      { name: "Published", number: true, cell: (topic) => rate(topic.rate) },
      { name: "Stored", number: true, cell: (topic) => count(topic.messages) },
      { name: "Size", number: true, cell: (topic) => bytes(topic.bytes) },
      { name: "Partitions", number: true, cell: (topic) => count(topic.partitions) },
      { name: "Groups", number: true, cell: (topic) => count(topic.groups) },
      { name: "Scheduled", number: true, cell: (topic) => count(topic.scheduled) },
      {
        name: "Dead letters",
        number: true,
        cell: (topic) =>
          topic.topic.endsWith(".dlq")
            ? "–"
            : topic.dead_letters
              ? h("a", { href: hash("dead-letters"), class: "warn" }, count(topic.dead_letters))
              : "0",
      },
    ],
  });
}
