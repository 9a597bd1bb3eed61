// Alerts, most severe first: problems of the server, failed pipelines, groups that need attention, dead letters.

import { h } from "../dom.js";
import { plural } from "../format.js";
import { icon } from "../icons.js";
import { button, groupLink, hash, pipelineLink, toneOf, topicLink, verdictIcon, when } from "../widgets.js";

const SHOWN_MAX = 4;
const TOPICS_MAX = 4;
let all = false; // Whether the user has expanded the list.

// Storage problems: title and remedy.
const CHECK = "Stop the server, then run penstock check DIR to list the damage and penstock repair DIR to fix what can be fixed.";
const PROBLEMS = {
  disk_full: ["The disk is full", "Free some space or enlarge the volume. Publishing resumes automatically."],
  directory_gone: ["The data directory is gone", "Stop the server and restore the directory from a backup."],
  storage_failed: ["Writing to the disk fails", "Check the disk, then restart the server. It recovers automatically."],
  damaged: ["Stored data is damaged", CHECK],
  file_damaged: ["A settings file is damaged", CHECK],
  topic_offline: ["A topic cannot be opened", `Other topics are not affected. ${CHECK}`],
  cut: ["The end of a log was truncated", "No action is needed."],
};

export function alerts(glance, redraw) {
  const { broker, groups, topics, alerts: found } = glance.data;
  const problems = together(broker.problems ?? []);
  const dead = topics.filter((topic) => topic.dead_letters > 0 && !topic.topic.endsWith(".dlq"));
  const broken = glance.pipelines.filter((pipeline) => ["failed", "lost"].includes(pipeline.state));
  const names = broken.map(({ run }) => run.name);
  const others = found.filter((alert) => !names.includes(alert.pipeline)); // Already covered by the row of the pipeline.
  const rows = [
    ...problems.map(problemRow),
    ...broken.map((pipeline) => pipelineRow(pipeline, found)),
    ...others.map(groupRow),
    ...(dead.length ? [deadRow(dead)] : []),
  ];
  if (!rows.length) return groups.length ? allWell(groups) : null;
  const urgent = problems.length + broken.length;
  const room = Math.max(SHOWN_MAX, urgent);
  const hidden = rows.length - room;
  return h(
    "div",
    { class: "alerts", key: "alerts", role: "region", "aria-label": "Alerts" },
    h("ul", null, all ? rows : rows.slice(0, room)),
    hidden > 0 &&
      button(all ? "Show fewer" : `Show ${hidden} more`, () => toggle(redraw), {
        kind: "plain",
        "aria-expanded": String(all),
      }),
  );
}

function toggle(redraw) {
  all = !all;
  redraw();
}

function allWell(groups) {
  return h(
    "p",
    { class: "all-well", key: "alerts" },
    icon("good"),
    `All systems normal: ${plural(groups.length, "group")}, no backlog that needs attention, no dead letters.`,
  );
}

function row(key, tone, picture, title, text, todo) {
  return h(
    "li",
    { class: tone, key },
    picture,
    h(
      "div",
      null,
      h("p", null, title),
      text && h("p", { class: "note" }, text),
      todo && h("p", { class: "todo" }, todo),
    ),
  );
}

// Problems of the same kind and topic share a row: a failing disk damages a log in many places.
function together(problems) {
  const found = new Map();
  for (const problem of problems) {
    const key = `${problem.kind} ${problem.topic ?? ""}`;
    found.set(key, [...(found.get(key) ?? []), problem]);
  }
  return [...found.values()].sort(([one], [other]) => Number(one.warning) - Number(other.warning));
}

function problemRow(problems) {
  const [{ kind, message, topic, partition, warning, since_ms: begun, path }] = problems;
  const [title, todo] = PROBLEMS[kind] ?? [kind.replaceAll("_", " "), ""];
  const one = problems.length === 1;
  const where = topic && [
    kind === "topic_offline" ? ": " : " on ",
    topicLink(topic),
    one && typeof partition === "number" && `, partition ${partition}`,
    !one && ` in ${problems.length} places`,
  ];
  return row(
    `problem ${kind} ${topic}`,
    warning ? "warn" : "bad severe",
    icon("dead"),
    [h("b", null, title), where, begun && [", since ", when(begun)]],
    [`${one ? "" : "First: "}${sentence(message)}`, path && [" ", h("span", { class: "id" }, path)]],
    todo,
  );
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

function pipelineRow({ run, state: word }, found) {
  const behind = found.filter((alert) => alert.pipeline === run.name).flatMap((alert) => alert.topics);
  return row(
    `pipeline ${run.name}`,
    "bad",
    icon(word === "failed" ? "cross" : "pause"),
    [
      "pipeline ",
      pipelineLink(run.name),
      " ",
      h("b", null, word === "failed" ? "has failed" : "has stopped reporting"),
      behind.length > 0 && [", messages are waiting on ", topicNames(behind)],
      " since ",
      when(run.updated_ms),
    ],
    run.error && run.error.split("\n")[0],
  );
}

function groupRow({ group, topics, word, text, since_ms: begun, pipeline }) {
  const name = pipeline
    ? ["pipeline ", pipelineLink(pipeline)]
    : topics.length === 1
      ? groupLink(topics[0], group)
      : h("b", null, group);
  return row(
    `${group} ${word}`,
    toneOf(word),
    verdictIcon(word),
    [name, " ", h("b", null, phrase(word)), " on ", topicNames(topics), begun && [" since ", when(begun)]],
    text,
  );
}

function topicNames(topics) {
  const names = topics.slice(0, TOPICS_MAX).map((topic, at) => [at > 0 && ", ", topicLink(topic)]);
  const rest = topics.length - TOPICS_MAX;
  return [
    topics.length > 1 && `${plural(topics.length, "topic")}: `,
    names,
    rest > 0 && ` and ${rest} more`,
  ];
}

function deadRow(topics) {
  const total = topics.reduce((sum, topic) => sum + topic.dead_letters, 0);
  return row(
    "dead",
    "warn",
    icon("dead"),
    [
      h("a", { href: hash("dead-letters") }, plural(total, "dead letter")),
      " of ",
      topicNames(topics.map((topic) => topic.topic)),
    ],
    null,
  );
}

const phrase = (word) => (word === "no consumers" ? "has no consumers" : `is ${word}`);
