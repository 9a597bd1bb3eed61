// The overview page: alerts, metrics, all groups and all topics.

import { charts } from "../chart.js";
import { bytes, count, latency, plural, rate, span } from "../format.js";
import { Glance } from "../glance.js";
import { COUNT, RATE, SPAN } from "../scale.js";
import { heading, section, tiles } from "../widgets.js";
import { alerts } from "./alerts.js";
import { folded, groupTable } from "./groups.js";
import { topicTable } from "./topics.js";

const glance = new Glance(); // Kept while the document is open, so that charts keep their history.

export function overviewPage({ redraw }) {
  function view() {
    const { broker, topics, groups } = glance.data;
    const visible = topics.filter((topic) => !topic.topic.endsWith(".dlq"));
    return [
      heading("Overview", {
        after: `Penstock ${broker.version}, up ${span(broker.uptime_seconds)}, ${plural(broker.connections, "connection")}, ${plural(broker.consumers, "consumer")}`,
      }),
      alerts(glance, redraw),
      figures(),
      history(redraw),
      section(
        "Groups",
        { note: groups.length ? plural(groups.length, "group") : "" },
        groupTable(folded(groups), { redraw }),
      ),
      section("Topics", { note: plural(visible.length, "topic") }, topicTable(visible)),
    ];
  }
  return {
    title: "Overview",
    get every() {
      return glance.every;
    },
    refresh: () => glance.refresh(),
    view,
  };
}

// Numbers.

function figures() {
  const { broker, topics, groups } = glance.data;
  const past = glance.history;
  const sum = (rows, name) => rows.reduce((total, row) => total + row[name], 0);
  const states = groups.map((line) => line.state);
  const dead = sum(
    topics.filter((topic) => !topic.topic.endsWith(".dlq")),
    "dead_letters",
  );
  return tiles([
    ["Published", rate(past.lastRate("published"))],
    ["Acked", rate(past.lastRate("acked")), "all groups"],
    ["Waiting", count(sum(states, "lag")), "all groups"],
    ["Oldest message", span(past.oldest_seconds.at(-1) ?? 0)],
    ["Latency p50", latency(glance.data.latency_half), `p99: ${latency(glance.data.latency_most)}`],
    ["In flight", count(sum(states, "in_flight")), `${count(sum(states, "waiting_retry"))} to be retried`],
    ["Dead letters", count(dead), null, dead ? "warn" : ""],
    ["Scheduled", count(broker.scheduled)],
    ["Stored", count(broker.messages), bytes(broker.bytes)],
  ]);
}

function history(redraw) {
  const past = glance.history;
  return charts(past, redraw, [
    {
      id: "rates",
      title: "Rates",
      unit: RATE,
      format: rate,
      lines: [
        { name: "published", values: past.rate("published"), tone: "first" },
        { name: "acked by groups", values: past.rate("acked"), tone: "second" },
        { name: "failed", values: past.rate("failed"), tone: "third" },
      ],
    },
    {
      id: "latency",
      title: "Publish-to-delivery latency",
      unit: SPAN,
      format: latency,
      lines: [
        { name: "p99", values: past.latency_most, tone: "fourth" },
        { name: "p50", values: past.latency_half, tone: "second" },
      ],
    },
    {
      id: "backlog",
      title: "Waiting messages",
      unit: COUNT,
      format: count,
      lines: [{ name: "all groups", values: past.waiting, tone: "first" }],
    },
    {
      id: "oldest",
      title: "Oldest waiting message",
      unit: SPAN,
      format: span,
      lines: [{ name: "age", values: past.oldest_seconds, tone: "fourth" }],
    },
  ]);
}
