// One topic: metrics, messages, groups, partitions, lanes and settings.

import { get, path, remove } from "../api.js";
import { charts } from "../chart.js";
import { ask } from "../dialogs.js";
import { h } from "../dom.js";
import { bytes, count, exactly, plural, rate, spanMs } from "../format.js";
import { History } from "../glance.js";
import { COUNT, RATE } from "../scale.js";
import { bar, button, facts, field, heading, section, table, tiles } from "../widgets.js";
import { Browse } from "./browse.js";
import { groupTable } from "./groups.js";
import { publishForm } from "./publish.js";

const TABS = ["Messages", "Groups", "Partitions", "Settings"];

export function topicPage({ parts: [name], redraw, refresh }) {
  const browse = new Browse(name, redraw);
  const publish = publishForm(name, redraw, () => browse.again());
  const shown = { tab: "Messages", topic: null, groups: [], past: null, lanes: null };

  async function load() {
    shown.past ??= await History.of(name);
    const [topic, groups] = await Promise.all([
      get(path("topics", name)),
      get(path("topics", name, "groups")),
    ]);
    shown.topic = topic;
    shown.groups = groups.groups.map(lineOf);
    const sum = (of) => shown.groups.reduce((total, { state }) => total + of(state), 0);
    const row = {
      published: topic.published,
      delivered: sum((group) => group.delivered),
      acked: sum((group) => group.acked),
      failed: sum((group) => group.failed),
      dead_lettered: sum((group) => group.dead_lettered),
      waiting: topic.depth,
      oldest_seconds: Math.max(0, ...shown.groups.map(({ state }) => state.lag_seconds)),
    };
    const measured = shown.groups.length
      ? { published: shown.groups[0].state.rates.published, acked: sum((group) => group.rates.acked) }
      : {};
    shown.past.add(Date.now(), row, measured);
    if (shown.tab === "Partitions") shown.lanes = (await get(path("topics", name, "lanes"))).lanes;
    await browse.first();
  }

  function view() {
    const { topic, past, tab } = shown;
    return [
      heading(name, {
        before: [h("a", { href: "#/topics" }, "Topics"), " /"],
        after: `${plural(topic.partitions.length, "partition")}, ${topic.settings.durability}, kept ${keptFor(topic.settings)}${topic.settings.compact ? ", compacted" : ""}`,
        actions: button("Delete…", () => deleteTopic(name), { kind: "danger" }),
      }),
      tiles([
        ["Waiting", count(topic.depth), shown.groups.length ? "for the slowest group" : "no groups"],
        ["Published", rate(past.lastRate("published"))],
        ["Stored", count(topic.messages), bytes(topic.bytes)],
        ["Scheduled", count(topic.scheduled)],
        ["Duplicates", count(topic.duplicates), "not stored"],
      ]),
      charts(past, redraw, [
        {
          id: `topic ${name} rates`,
          title: "Rates",
          unit: RATE,
          format: rate,
          height: 120,
          lines: [
            { name: "published", values: past.rate("published"), tone: "first" },
            { name: "acked by groups", values: past.rate("acked"), tone: "second" },
          ],
        },
        {
          id: `topic ${name} depth`,
          title: "Waiting messages",
          unit: COUNT,
          format: count,
          height: 120,
          lines: [{ name: "for the slowest group", values: past.waiting, tone: "first" }],
        },
      ]),
      tabs(tab),
      content(tab),
    ];
  }

  function tabs(current) {
    const counts = { Groups: shown.groups.length, Partitions: shown.topic.partitions.length };
    return h(
      "div",
      { class: "tabs", role: "tablist", key: "tabs", onkeydown: moveTab },
      TABS.map((tab) =>
        h(
          "button",
          {
            type: "button",
            role: "tab",
            id: `tab-${tab}`,
            "aria-selected": String(tab === current),
            "aria-controls": "panel",
            tabindex: tab === current ? 0 : -1,
            onclick: () => choose(tab),
          },
          tab,
          counts[tab] !== undefined && h("small", null, ` ${counts[tab]}`),
        ),
      ),
    );
  }

  function choose(tab) {
    shown.tab = tab;
    redraw();
    if (tab === "Partitions") refresh();
    document.getElementById(`tab-${tab}`).focus();
  }

  function moveTab(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) choose(TABS[(TABS.indexOf(shown.tab) + step + TABS.length) % TABS.length]);
  }

  function content(tab) {
    const parts = {
      Messages: () => [h("div", { class: "beside" }, browse.view(), publish.view())],
      Groups: () => section("Groups", {}, groupTable(shown.groups, { topic: false })),
      Partitions: () => h("div", { class: "pile" }, lanes(shown.lanes), partitions(shown.topic)),
      Settings: () => settings(shown.topic),
    };
    return h(
      "div",
      { id: "panel", role: "tabpanel", "aria-labelledby": `tab-${tab}`, key: `panel ${tab}` },
      parts[tab](),
    );
  }

  return { title: name, every: 2000, about: { what: "topic", parts: [name] }, refresh: load, view };
}

// Converts a group description to a line of the overview.
function lineOf(group) {
  return {
    state: { ...group, consumers: group.consumers.length, failed: group.nacked + group.timed_out },
    since_ms: null,
    pipeline: group.pipeline,
  };
}

function partitions(topic) {
  const largest = Math.max(1, ...topic.partitions.map((partition) => partition.bytes));
  return section(
    "Partitions",
    { note: "messages are ordered within a partition" },
    table({
      label: "Partitions",
      rows: topic.partitions,
      key: (partition) => partition.partition,
      columns: [
        { name: "Partition", number: true, tight: true, cell: (partition) => partition.partition },
        { name: "First offset", number: true, cell: (partition) => exactly(partition.start) },
        { name: "Next offset", number: true, cell: (partition) => exactly(partition.end) },
        {
          name: "Messages",
          number: true,
          cell: (partition) => count(partition.end - partition.start),
        },
        { name: "Size", number: true, cell: (partition) => bytes(partition.bytes) },
        {
          name: "Share",
          wide: true,
          cell: (partition) => bar(partition.bytes, largest, bytes(partition.bytes)),
        },
        { name: "Scheduled", number: true, cell: (partition) => count(partition.scheduled) },
      ],
    }),
  );
}

function lanes(counts) {
  const total = Object.values(counts ?? {}).reduce((sum, each) => sum + each, 0);
  return section(
    "Lanes",
    { note: "highest priority first" },
    h(
      "dl",
      { class: "lanes" },
      Object.entries(counts ?? {}).map(([lane, messages]) =>
        h(
          "div",
          { key: lane },
          h("dt", null, lane),
          h(
            "dd",
            null,
            bar(messages, total, `${exactly(messages)} messages`),
            h("span", { class: "number" }, count(messages)),
          ),
        ),
      ),
    ),
  );
}

function settings(topic) {
  const shown = Object.entries(topic.settings).map(([name, value]) => {
    const written =
      value === null
        ? "no limit"
        : name.endsWith("_ms")
          ? spanMs(value)
          : name.includes("bytes")
            ? bytes(value)
            : value === ""
              ? "–"
              : typeof value === "number"
                ? exactly(value)
                : String(value);
    return [name.replace(/_ms$/, "").replaceAll("_", " "), written];
  });
  return section("Settings", { note: "change them with penstock topic alter or the HTTP API" }, facts(shown));
}

function deleteTopic(name) {
  let typed = "";
  ask({
    title: `Delete ${name}?`,
    label: "Delete topic",
    kind: "danger",
    ready: () => typed === name,
    body: (redraw) => [
      h("p", null, "This permanently deletes the topic with all its messages and groups."),
      field(
        "Type the topic name to confirm",
        h("input", {
          name: "name",
          autocomplete: "off",
          spellcheck: "false",
          oninput: (event) => {
            typed = event.currentTarget.value;
            redraw();
          },
        }),
      ),
    ],
    act: async () => {
      await remove(path("topics", name));
      location.hash = "#/topics";
      return `Topic ${name} deleted.`;
    },
  });
}

// Retention applies to a compacted topic only if it is set to "always".
function keptFor({ retention_ms: limit, retention_applies: applies, compact }) {
  const deletes = applies === "always" || (applies === "auto" && !compact);
  return deletes && limit !== null ? `for ${spanMs(limit)}` : "forever";
}
