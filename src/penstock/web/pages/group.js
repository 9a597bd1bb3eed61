// One group: its verdict, metrics, oldest unsettled message, consumers and partitions, and seeking.

import { get, path, remove } from "../api.js";
import { charts } from "../chart.js";
import { ask } from "../dialogs.js";
import { h } from "../dom.js";
import { count, exactly, latency, plural, rate, span } from "../format.js";
import { History } from "../glance.js";
import { COUNT, RATE, SPAN } from "../scale.js";
import {
  bar,
  button,
  command,
  empty,
  facts,
  hash,
  heading,
  messageLink,
  pipelineLink,
  section,
  table,
  tiles,
  toneOf,
  topicLink,
  verdictIcon,
} from "../widgets.js";
import { drained } from "./groups.js";
import { seek } from "./seek.js";

const WAITS_MS = 30_000; // The server aggregates latencies every 30 seconds.

export function groupPage({ parts: [topic, name], redraw, refresh }) {
  const shown = { group: null, past: null, waits: null, waitsAsked: 0 };

  async function load() {
    shown.past ??= await History.of(topic, name);
    if (Date.now() - shown.waitsAsked > WAITS_MS) {
      shown.waitsAsked = Date.now();
      shown.waits = await History.of(topic, name);
    }
    const { waits } = shown; // Extend the latest value to now.
    waits.add(Date.now(), { latency_half: waits.latency_half.at(-1), latency_most: waits.latency_most.at(-1) });
    const group = await get(path("topics", topic, "groups", name));
    shown.group = group;
    const row = {
      published: shown.past.published.at(-1) ?? 0,
      delivered: group.delivered,
      acked: group.acked,
      failed: group.nacked + group.timed_out,
      dead_lettered: group.dead_lettered,
      waiting: group.lag,
      oldest_seconds: group.lag_seconds,
    };
    shown.past.add(Date.now(), row, { acked: group.rates.acked, failed: group.rates.failed });
  }

  function view() {
    const { group, past, waits } = shown;
    const word = group.verdict.word;
    return [
      heading(name, {
        before: [h("a", { href: "#/topics" }, "Topics"), " / ", topicLink(topic), " /"],
        after: group.pipeline
          ? ["Used by the pipeline ", pipelineLink(group.pipeline), ", which reads the topic in batches."]
          : group.kind === "stream"
            ? "Stream group: each partition is assigned to one consumer, which commits offsets."
            : "Queue group: consumers share the messages and lease each one while they process it.",
        actions: [
          button("Seek…", () => seek(topic, group, refresh)),
          button("Delete…", () => deleteGroup(topic, name), { kind: "danger" }),
        ],
      }),
      h(
        "div",
        { class: `verdict ${toneOf(word)}`, key: "verdict" },
        verdictIcon(word),
        h("div", null, h("p", { class: "verdict-word" }, word), h("p", null, group.verdict.text)),
        group.verdict.message && h("a", { href: hash("messages", group.verdict.message) }, "View trace"),
      ),
      tiles([
        ["Lag", count(group.lag), "messages"],
        ["Oldest message", group.lag ? span(group.lag_seconds) : "–"],
        ["In flight", count(group.in_flight), "leased"],
        ["Retrying", count(group.waiting_retry)],
        ["Published", rate(group.rates.published)],
        ["Acked", rate(group.rates.acked)],
        ["Failed", rate(group.rates.failed), null, group.rates.failed ? "warn" : ""],
        ["Time to drain", drained(group)],
      ]),
      charts(past, redraw, [
        {
          id: `group ${topic} ${name} lag`,
          title: "Lag",
          unit: COUNT,
          format: count,
          height: 120,
          lines: [{ name: "messages", values: past.waiting, tone: "first" }],
        },
        {
          id: `group ${topic} ${name} rates`,
          title: "Rates",
          unit: RATE,
          format: rate,
          height: 120,
          lines: [
            { name: "acked", values: past.rate("acked"), tone: "second" },
            { name: "failed", values: past.rate("failed"), tone: "third" },
          ],
        },
        {
          id: `group ${topic} ${name} oldest`,
          title: "Oldest waiting message",
          unit: SPAN,
          format: span,
          height: 120,
          lines: [{ name: "age", values: past.oldest_seconds, tone: "fourth" }],
        },
        {
          id: `group ${topic} ${name} latency`,
          title: "Publish-to-delivery latency",
          unit: SPAN,
          format: latency,
          height: 120,
          times: waits.times,
          lines: [
            { name: "p99", values: waits.latency_most, tone: "fourth" },
            { name: "p50", values: waits.latency_half, tone: "second" },
          ],
        },
      ]),
      h(
        "div",
        { class: "beside even", key: "beside" },
        oldest(group),
        h("div", { class: "pile" }, consumers(group, topic), totals(group)),
      ),
      partitions(group),
    ];
  }

  const about = { what: "group", parts: [topic, name] };
  return { title: `${name} on ${topic}`, every: 2000, about, refresh: load, view };
}

function oldest({ oldest_unacked: message }) {
  if (!message) return section("Oldest unsettled message", {}, empty("All delivered messages are settled."));
  const known = [
    ["message", messageLink(message.id)],
    ["published", `${span(message.age_seconds)} ago`],
    ["leased to", message.consumer ?? "–"],
    ["attempts", `${message.attempts} (${message.failures} failed)`],
  ];
  if (message.due_seconds !== null)
    known.push([message.consumer === null ? "next delivery in" : "lease expires in", span(message.due_seconds)]);
  if (message.behind) known.push(["waiting behind it", plural(message.behind, "message")]);
  return section(
    "Oldest unsettled message",
    {},
    facts(known),
    message.error && h("pre", { class: "code bad", tabindex: "0" }, message.error),
  );
}

function consumers(group, topic) {
  const content = group.consumers.length
    ? h(
        "ul",
        { class: "chips" },
        group.consumers.map((consumer) => h("li", { key: consumer, class: "id" }, consumer)),
      )
    : group.pipeline
      ? empty(
          "No members.",
          h("p", null, "Pipelines commit offsets without joining the group. See ", pipelineLink(group.pipeline), "."),
        )
      : empty("No consumers are connected.", command(`penstock consume ${topic} --group ${group.group}`));
  return section(
    "Consumers",
    { note: group.consumers.length ? plural(group.consumers.length, "consumer") : "" },
    content,
  );
}

function partitions(group) {
  return section(
    "Partitions",
    {},
    table({
      label: "Partitions",
      rows: group.partitions,
      key: (partition) => partition.partition,
      columns: [
        { name: "Partition", number: true, tight: true, cell: (partition) => partition.partition },
        {
          name: group.kind === "stream" ? "Committed" : "Settled below",
          number: true,
          cell: (partition) => exactly(partition.floor),
        },
        { name: "End", number: true, cell: (partition) => exactly(partition.end) },
        {
          name: "Progress",
          wide: true,
          cell: (partition) =>
            bar(
              partition.end - partition.lag,
              partition.end,
              `${partition.lag} of ${partition.end} remaining`,
            ),
        },
        { name: "Lag", number: true, cell: (partition) => count(partition.lag) },
        { name: "In flight", number: true, cell: (partition) => count(partition.in_flight) },
        { name: "Retrying", number: true, cell: (partition) => count(partition.waiting_retry) },
      ],
    }),
  );
}

function totals(group) {
  const names = ["delivered", "acked", "nacked", "timed_out", "dead_lettered", "expired", "lost"];
  return section(
    "Totals since startup",
    {},
    facts(names.map((name) => [name.replace("_", " "), exactly(group[name])])),
  );
}

function deleteGroup(topic, name) {
  ask({
    title: `Delete ${name}?`,
    label: "Delete group",
    kind: "danger",
    body: () => h("p", null, "This deletes the group's position and disconnects its consumers. The messages are kept."),
    act: async () => {
      await remove(path("topics", topic, "groups", name));
      location.hash = `#/topics/${encodeURIComponent(topic)}`;
      return `Group ${name} deleted.`;
    },
  });
}
