// The table of groups, most severe first.  Groups of the same pipeline share a row that can be expanded.

import { h } from "../dom.js";
import { count, plural, rate, span } from "../format.js";
import {
  button,
  command,
  empty,
  groupLink,
  isAlert,
  pipelineLink,
  severity,
  table,
  topicLink,
  verdict,
  when,
} from "../widgets.js";

const opened = new Set(); // Names of pipelines whose rows are expanded.

const bySeverity = (one, other) =>
  severity(other.state.verdict.word) - severity(one.state.verdict.word) ||
  other.state.lag_seconds - one.state.lag_seconds ||
  other.state.lag - one.state.lag;

// Combines several groups of the same pipeline into one line, with the groups in `parts`.
export function folded(lines) {
  const own = lines.filter((line) => !line.pipeline);
  const names = [...new Set(lines.map((line) => line.pipeline).filter(Boolean))];
  return [
    ...own,
    ...names.map((name) => together(name, lines.filter((line) => line.pipeline === name).sort(bySeverity))),
  ];
}

function together(pipeline, parts) {
  if (parts.length === 1) return parts[0];
  const states = parts.map((line) => line.state);
  const sum = (of) => states.reduce((total, state) => total + of(state), 0);
  return {
    ...parts[0],
    parts,
    state: {
      ...parts[0].state,
      lag: sum((state) => state.lag),
      lag_seconds: Math.max(...states.map((state) => state.lag_seconds)),
      in_flight: sum((state) => state.in_flight),
      waiting_retry: sum((state) => state.waiting_retry),
      consumers: sum((state) => state.consumers),
      rates: { acked: sum((state) => state.rates.acked) },
      drain_seconds: states.some((state) => state.lag && state.drain_seconds === null)
        ? null
        : Math.max(...states.map((state) => state.drain_seconds ?? 0)),
    },
  };
}

// Show "never" only if the group needs attention.
export function drained({ lag, drain_seconds: seconds, verdict: { word } }) {
  if (!lag) return "–";
  return seconds === null ? (isAlert(word) ? "never" : "–") : span(seconds);
}

export function groupTable(lines, { topic = true, redraw } = {}) {
  return table({
    label: "Groups",
    rows: [...lines]
      .sort(bySeverity)
      .flatMap((line) => [line, ...(line.parts && opened.has(line.pipeline) ? line.parts.map(inner) : [])]),
    key: ({ state, parts, part }) =>
      parts ? `pipeline ${state.group}` : `${part ? "part " : ""}${state.topic} ${state.group}`,
    empty: empty(
      "No consumer groups yet.",
      h("p", null, "A group is created when its first consumer connects:"),
      command("penstock consume orders --group billing"),
    ),
    columns: [
      { name: "Group", head: true, cell: (line) => name(line, topic, redraw) },
      {
        name: "Verdict",
        head: true,
        cell: ({ state, since_ms: begun }) =>
          h(
            "span",
            { title: state.verdict.text },
            verdict(state.verdict.word),
            begun &&
              isAlert(state.verdict.word) &&
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
      { name: "Time to drain", number: true, cell: ({ state }) => drained(state) },
      {
        name: "Consumers",
        number: true,
        cell: ({ state, pipeline }) => (pipeline ? "–" : count(state.consumers)),
      },
    ],
  });
}

const inner = (line) => ({ ...line, part: true });

function name({ state, pipeline, parts, part }, topic, redraw) {
  if (parts) {
    const open = opened.has(pipeline);
    return [
      button(open ? "−" : "+", () => toggle(pipeline, redraw), {
        kind: "plain fold",
        "aria-expanded": String(open),
        "aria-label": `Groups of the pipeline ${pipeline}`,
      }),
      pipelineLink(pipeline),
      h("span", { class: "note" }, ` pipeline, ${plural(parts.length, "topic")}`),
    ];
  }
  return h(
    "span",
    { class: part ? "part" : false },
    groupLink(state.topic, state.group),
    topic && h("span", { class: "of" }, " ", topicLink(state.topic)),
    pipeline && !part && h("span", { class: "note" }, " pipeline"),
  );
}

function toggle(pipeline, redraw) {
  if (!opened.delete(pipeline)) opened.add(pipeline);
  redraw();
}
