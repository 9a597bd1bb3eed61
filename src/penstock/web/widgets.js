// Shared building blocks of the pages.

import { h } from "./dom.js";
import { ago, time } from "./format.js";
import { icon } from "./icons.js";
import { both } from "./zone.js";

// Verdicts of groups and states of pipelines: tone, icon and severity.
const VERDICTS = {
  blocked: ["bad", "block", 6],
  failing: ["bad", "cross", 5],
  stalled: ["bad", "pause", 4],
  "falling behind": ["warn", "up", 3],
  "no consumers": ["warn", "nobody", 2],
  working: ["info", "work", 1],
  draining: ["info", "down", 1],
  "keeping up": ["good", "good", 0],
  idle: ["quiet", "idle", 0],
};
const STATES = {
  failed: ["bad", "cross"],
  lost: ["bad", "pause"],
  starting: ["info", "work"],
  stopping: ["info", "work"],
  running: ["good", "good"],
  done: ["quiet", "good"],
  stopped: ["quiet", "idle"],
  up: ["good", "good"],
  draining: ["info", "down"],
  silent: ["bad", "pause"],
};

const ALERT = 2; // The severity from which a verdict needs attention.

export const severity = (word) => VERDICTS[word]?.[2] ?? 0;
export const isAlert = (word) => severity(word) >= ALERT;
export const toneOf = (word) => VERDICTS[word]?.[0] ?? "quiet";
export const verdictIcon = (word) => icon(VERDICTS[word]?.[1] ?? "idle");

export function verdict(word) {
  const [tone, shape] = VERDICTS[word] ?? ["quiet", "idle"];
  return badge(word, tone, shape);
}

export function state(word) {
  const [tone, shape] = STATES[word] ?? ["quiet", "idle"];
  return badge(word, tone, shape);
}

function badge(word, tone, shape) {
  return h("span", { class: `badge ${tone}` }, icon(shape), word);
}

// Links.

export const hash = (...parts) => "#/" + parts.map(encodeURIComponent).join("/");
export const topicLink = (topic) => h("a", { href: hash("topics", topic) }, topic);
export const groupLink = (topic, group) => h("a", { href: hash("topics", topic, "groups", group) }, group);
export const pipelineLink = (name) => h("a", { href: "#/pipelines" }, name);
export const messageLink = (id) => h("a", { class: "id", href: hash("messages", id) }, id);

export function when(milliseconds, how = time) {
  return h(
    "time",
    { datetime: new Date(milliseconds).toISOString(), title: both(milliseconds) },
    how(milliseconds),
  );
}

export const since = (milliseconds, now) => when(milliseconds, () => ago(milliseconds, now));

// Parts of a page.

export function heading(title, { before, after, actions } = {}) {
  return h(
    "header",
    { class: "page-head", key: "heading" },
    h(
      "div",
      null,
      before && h("p", { class: "trail" }, before),
      h("h1", { tabindex: "-1", id: "title" }, title),
      after && h("p", { class: "lead" }, after),
    ),
    actions && h("div", { class: "actions" }, actions),
  );
}

export function section(title, options, ...children) {
  const { note, side, key } = options ?? {};
  return h(
    "section",
    { class: "card", key: key ?? title },
    h(
      "div",
      { class: "card-head" },
      h("h2", null, title),
      note && h("span", { class: "note" }, note),
      side && h("div", { class: "side" }, side),
    ),
    children,
  );
}

// facts: [name, value, more, tone]
export function tiles(facts) {
  return h(
    "dl",
    { class: "tiles", key: "tiles" },
    facts.map(([name, value, more, tone]) =>
      h(
        "div",
        { class: `tile ${tone ?? ""}` },
        h("dt", null, name),
        h("dd", null, value, more && h("small", null, more)),
      ),
    ),
  );
}

// Names and values side by side.
export function facts(list) {
  return h(
    "dl",
    { class: "facts" },
    list.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
  );
}

// columns: { name, cell(row) } and their kind: number, wide, tight, head (identifies the row), acts (buttons).
// key(row) identifies a row; open(row) returns the details to show below it.
export function table({ label, columns, rows, key, empty, open }) {
  if (!rows.length) return empty;
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h(
      "table",
      null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          columns.map((column) => h("th", { scope: "col", class: classOf(column) }, column.name)),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((row) => [
          h(
            "tr",
            { key: key(row) },
            columns.map((column) =>
              h("td", { class: classOf(column), "data-name": column.name || false }, column.cell(row)),
            ),
          ),
          open?.(row) &&
            h(
              "tr",
              { key: `${key(row)} open`, class: "opened" },
              h("td", { colspan: columns.length }, open(row)),
            ),
        ]),
      ),
    ),
  );
}

function classOf(column) {
  return (
    [
      column.number && "number",
      column.wide && "wide",
      column.tight && "tight",
      column.head && "head",
      column.acts && "row-actions",
    ]
      .filter(Boolean)
      .join(" ") || false
  );
}

export function empty(title, ...more) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), more);
}

export const command = (text) => h("pre", { class: "code command", tabindex: "0" }, text);

export function button(text, onclick, { kind = "", ...more } = {}) {
  return h("button", { type: "button", class: kind || false, onclick, ...more }, text);
}

// A labelled input; `control` is an element of a form.
export function field(label, control, hint) {
  return h("label", { class: "field" }, h("span", null, label), control, hint && h("small", null, hint));
}

export function select(name, options, props = {}) {
  return h(
    "select",
    { name, ...props },
    options.map(([value, text]) => h("option", { value, selected: props.chosen === value }, text)),
  );
}

// A progress bar with a text alternative.
export function bar(part, whole, words) {
  const percent = whole > 0 ? Math.min(Math.max((part / whole) * 100, 0), 100) : 100;
  return h(
    "span",
    { class: "bar", role: "img", "aria-label": words, title: words },
    h("span", { style: { width: `${percent.toFixed(1)}%` } }),
  );
}

export function problemNote(problem) {
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("p", null, problem.message),
    problem.todo && h("p", { class: "note" }, problem.todo),
  );
}
