// Everything at a glance: what needs somebody, how fast it goes, every group and every topic.

import { charts } from "../chart.js";
import { h } from "../dom.js";
import { bytes, count, plural, rate, span } from "../format.js";
import { Glance } from "../glance.js";
import { icon } from "../icons.js";
import {
  command,
  empty,
  groupLink,
  hash,
  heading,
  section,
  severity,
  table,
  tiles,
  toneOf,
  topicLink,
  verdict,
  verdictIcon,
  when,
} from "../widgets.js";
import { topicTable } from "./topics.js";

const ALERT = 2; // How bad a verdict is that somebody should hear of.
const ALERTS_MAX = 6;
const glance = new Glance(); // Kept while the document is open, so that charts go on.

export function overviewPage({ redraw }) {
  function view() {
    const { broker, topics, groups } = glance.told;
    const visible = topics.filter((topic) => !topic.topic.endsWith(".dlq"));
    return [
      heading("Overview", {
        after: `Penstock ${broker.version}, up for ${span(broker.uptime_seconds)}, ${plural(broker.connections, "connection")}, ${plural(broker.consumers, "consumer")}`,
      }),
      alerts(groups, topics),
      figures(),
      history(redraw),
      section("Groups", { note: groups.length ? plural(groups.length, "group") : "" }, groupTable(groups)),
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

// What needs somebody.

function alerts(groups, topics) {
  const bad = groups.filter((line) => severity(line.state.verdict.word) >= ALERT).sort(byBadness);
  const dead = topics.filter((topic) => topic.dead_letters > 0 && !topic.topic.endsWith(".dlq"));
  const broken = glance.pipelines.filter((pipeline) => ["failed", "lost"].includes(pipeline.state));
  if (!bad.length && !dead.length && !broken.length) {
    if (!groups.length) return null;
    return h(
      "p",
      { class: "all-well", key: "alerts" },
      icon("good"),
      `All is well: ${plural(groups.length, "group")}, nothing waits for long, no dead letters.`,
    );
  }
  const more = bad.length - ALERTS_MAX;
  return h(
    "ul",
    { class: "alerts", key: "alerts", "aria-label": "Alerts" },
    broken.map(pipelineAlert),
    bad.slice(0, ALERTS_MAX).map(groupAlert),
    more > 0 &&
      h("li", { class: "warn", key: "more" }, icon("up"), h("p", null, `${plural(more, "group")} more`)),
    deadAlert(dead),
  );
}

function groupAlert({ state, since_ms: begun }) {
  const word = state.verdict.word;
  return h(
    "li",
    { class: toneOf(word), key: `${state.topic} ${state.group}` },
    verdictIcon(word),
    h(
      "div",
      null,
      h(
        "p",
        null,
        groupLink(state.topic, state.group),
        " on ",
        topicLink(state.topic),
        " ",
        h("b", null, phrase(word)),
        begun && [" since ", when(begun)],
      ),
      h("p", { class: "note" }, state.verdict.text),
    ),
  );
}

function pipelineAlert({ run, state: word }) {
  return h(
    "li",
    { class: "bad", key: `pipeline ${run.name}` },
    icon(word === "failed" ? "cross" : "pause"),
    h(
      "div",
      null,
      h(
        "p",
        null,
        "pipeline ",
        h("a", { href: hash("pipelines") }, run.name),
        " ",
        h("b", null, word === "failed" ? "has failed" : "is lost"),
        " since ",
        when(run.updated_ms),
      ),
      run.error && h("p", { class: "note" }, run.error.split("\n")[0]),
    ),
  );
}

function deadAlert(topics) {
  if (!topics.length) return null;
  const total = topics.reduce((sum, topic) => sum + topic.dead_letters, 0);
  const names = topics.slice(0, 4).map((topic, at) => [at > 0 && ", ", topicLink(topic.topic)]);
  const rest = topics.length - names.length;
  return h(
    "li",
    { class: "warn", key: "dead" },
    icon("dead"),
    h(
      "p",
      null,
      h("a", { href: hash("dead-letters") }, plural(total, "dead letter")),
      " of ",
      names,
      rest > 0 && ` and ${plural(rest, "topic")} more`,
    ),
  );
}

const phrase = (word) => (word === "no consumers" ? "has no consumers" : `is ${word}`);

// Numbers.

function figures() {
  const { broker, topics, groups } = glance.told;
  const past = glance.history;
  const last = (values) => values[values.length - 1] ?? 0;
  const sum = (rows, name) => rows.reduce((total, row) => total + row[name], 0);
  const states = groups.map((line) => line.state);
  const dead = sum(
    topics.filter((topic) => !topic.topic.endsWith(".dlq")),
    "dead_letters",
  );
  return tiles([
    ["Published", rate(last(past.rate("published")))],
    ["Acked", rate(last(past.rate("acked")))],
    ["Waiting", count(sum(states, "lag")), "messages"],
    ["Oldest waits", span(last(past.oldest_seconds))],
    ["Latency", span(glance.told.latency_half), `99 %: ${span(glance.told.latency_most)}`],
    ["In flight", count(sum(states, "in_flight")), `${count(sum(states, "waiting_retry"))} to retry`],
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
      format: rate,
      lines: [
        { name: "published", values: past.rate("published"), tone: "first" },
        { name: "acked", values: past.rate("acked"), tone: "second" },
        { name: "failed", values: past.rate("failed"), tone: "third" },
      ],
    },
    {
      id: "latency",
      title: "From publish to delivery",
      format: span,
      lines: [
        { name: "99 %", values: past.latency_most, tone: "fourth" },
        { name: "half", values: past.latency_half, tone: "second" },
      ],
    },
    {
      id: "backlog",
      title: "Messages that wait",
      format: count,
      lines: [{ name: "waiting", values: past.waiting, tone: "first" }],
    },
    {
      id: "oldest",
      title: "Oldest message that waits",
      format: span,
      lines: [{ name: "age", values: past.oldest_seconds, tone: "fourth" }],
    },
  ]);
}

// Groups.

const byBadness = (one, other) =>
  severity(other.state.verdict.word) - severity(one.state.verdict.word) ||
  other.state.lag_seconds - one.state.lag_seconds ||
  other.state.lag - one.state.lag;

// Never is worth a word only where somebody should do something.
export function drained({ lag, drain_seconds: seconds, verdict: { word } }) {
  if (!lag) return "–";
  return seconds === null ? (severity(word) >= ALERT ? "never" : "–") : span(seconds);
}

export function groupTable(groups, { topic = true } = {}) {
  return table({
    label: "Groups",
    rows: [...groups].sort(byBadness),
    key: ({ state }) => `${state.topic} ${state.group}`,
    empty: empty(
      "No group reads yet.",
      h("p", null, "A group is made by its first consumer:"),
      command("penstock consume orders --group billing"),
    ),
    columns: [
      {
        name: "Group",
        head: true,
        cell: ({ state }) => [
          groupLink(state.topic, state.group),
          topic && h("span", { class: "of" }, " ", topicLink(state.topic)),
        ],
      },
      {
        name: "Verdict",
        head: true,
        cell: ({ state, since_ms: begun }) =>
          h(
            "span",
            { title: state.verdict.text },
            verdict(state.verdict.word),
            begun &&
              severity(state.verdict.word) >= ALERT &&
              h("small", { class: "note" }, " since ", when(begun)),
          ),
      },
      { name: "Lag", number: true, cell: ({ state }) => count(state.lag) },
      {
        name: "Oldest",
        number: true,
        cell: ({ state }) => (state.lag ? span(state.lag_seconds) : "–"),
      },
      { name: "In flight", number: true, cell: ({ state }) => count(state.in_flight) },
      { name: "Retrying", number: true, cell: ({ state }) => count(state.waiting_retry) },
      { name: "Acked", number: true, cell: ({ state }) => rate(state.rates.acked) },
      { name: "Drained in", number: true, cell: ({ state }) => drained(state) },
      { name: "Consumers", number: true, cell: ({ state }) => count(state.consumers) },
    ],
  });
}
