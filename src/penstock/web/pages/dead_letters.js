// Dead letters grouped by error: ten thousand of them are usually three bugs.

import { get, path, query } from "../api.js";
import { body, namesSchema, preview } from "../body.js";
import { h } from "../dom.js";
import { count, plural } from "../format.js";
import { redrive } from "../redrive.js";
import {
  button,
  empty,
  groupLink,
  heading,
  messageLink,
  section,
  since,
  table,
  topicLink,
  when,
} from "../widgets.js";

const SAMPLES = 10;
const LISTED_MAX = 1000; // Per topic, to find examples of one error.

export function deadLettersPage({ redraw, refresh }) {
  const shown = { errors: [], opened: null, samples: null, unfolded: new Set(), raw: false };

  async function load() {
    shown.errors = (await get("/v1/dead-letters")).errors;
    if (shown.opened) await showSamples();
  }

  async function showSamples() {
    const error = shown.errors.find((each) => keyOf(each) === shown.opened);
    if (!error) return;
    const data = await get(
      path("topics", error.topic, "dead-letters") + query({ as: "text", limit: LISTED_MAX }),
    );
    const letters = data.dead_letters
      .filter((letter) => letter.fingerprint === error.fingerprint)
      .slice(-SAMPLES)
      .reverse();
    shown.samples = await Promise.all(letters.map((letter) => readable(error.topic, letter)));
  }

  // Only the examples are decoded, and each once: a dead letter does not change.
  async function readable(topic, letter) {
    if (!namesSchema(letter.message)) return letter;
    const { id } = letter.message;
    const known = shown.samples?.find((each) => each.message.id === id);
    if (known) return known;
    try {
      return await get(path("topics", topic, "dead-letters", id) + query({ as: "text", decode: true }));
    } catch (problem) {
      if (problem.status !== 404) throw problem;
      return letter; // Retention has deleted it meanwhile.
    }
  }

  async function open(error) {
    const key = keyOf(error);
    shown.opened = shown.opened === key ? null : key;
    shown.samples = null;
    shown.unfolded.clear();
    redraw();
    if (shown.opened) {
      await showSamples();
      redraw();
    }
  }

  function view() {
    const total = shown.errors.reduce((sum, error) => sum + error.count, 0);
    return [
      heading("Dead letters", {
        after: total
          ? `${plural(total, "message")} with ${plural(shown.errors.length, "distinct error")}.`
          : null,
      }),
      section(
        "By error",
        { key: "errors" },
        table({
          label: "Dead letters by error",
          rows: shown.errors,
          key: keyOf,
          empty: empty(
            "No dead letters.",
            h(
              "p",
              null,
              "Messages whose last attempt failed, or that were rejected, are kept here with their error until you redrive them.",
            ),
          ),
          open: (error) => shown.opened === keyOf(error) && samples(),
          columns: [
            { name: "", tight: true, cell: (error) => opener(error) },
            {
              name: "Count",
              number: true,
              tight: true,
              cell: (error) => h("b", null, count(error.count)),
            },
            {
              name: "Error",
              wide: true,
              head: true,
              cell: (error) =>
                h(
                  "div",
                  { class: "error-cell" },
                  h("span", { class: "error-line cut" }, error.error || error.reason),
                  h("small", { class: "note" }, error.reason),
                ),
            },
            { name: "Topic", cell: (error) => topicLink(error.topic) },
            {
              name: "Groups",
              cell: (error) =>
                error.groups.map((group, at) => [at > 0 && ", ", groupLink(error.topic, group)]),
            },
            { name: "First seen", tight: true, cell: (error) => when(error.first_seen_ms) },
            { name: "Last seen", tight: true, cell: (error) => since(error.last_seen_ms) },
            {
              name: "",
              tight: true,
              acts: true,
              cell: (error) =>
                button("Redrive…", () =>
                  redrive(
                    error.topic,
                    { error: error.fingerprint },
                    `Dead letters of ${error.topic} with the error “${(error.error || error.reason).slice(0, 120)}”.`,
                    refresh,
                  ),
                ),
            },
          ],
        }),
      ),
    ];
  }

  function opener(error) {
    const opened = shown.opened === keyOf(error);
    return button(opened ? "−" : "+", () => open(error), {
      kind: "plain opener",
      "aria-expanded": String(opened),
      "aria-label": `Messages with the error ${error.error || error.reason}`,
    });
  }

  function unfolder(id) {
    const unfolded = shown.unfolded.has(id);
    const toggle = () => {
      if (unfolded) shown.unfolded.delete(id);
      else shown.unfolded.add(id);
      redraw();
    };
    return button(unfolded ? "−" : "+", toggle, {
      kind: "plain opener",
      "aria-expanded": String(unfolded),
      "aria-label": `Value of ${id}`,
    });
  }

  function samples() {
    if (!shown.samples) return h("p", { class: "note" }, "Loading…");
    return [
      h(
        "p",
        { class: "note" },
        "The most recent messages with this error. Select one to see its trace.",
      ),
      table({
        label: "Messages with this error",
        rows: shown.samples,
        key: (letter) => letter.message.id,
        empty: empty("None of the first 1,000 dead letters of this topic has this error."),
        open: (letter) => shown.unfolded.has(letter.message.id) && body(letter.message, shown, redraw),
        columns: [
          { name: "", tight: true, cell: (letter) => unfolder(letter.message.id) },
          { name: "Message", tight: true, cell: (letter) => messageLink(letter.source) },
          { name: "Group", tight: true, cell: (letter) => letter.group },
          { name: "Attempts", number: true, tight: true, cell: (letter) => count(letter.attempts) },
          { name: "Failed", tight: true, cell: (letter) => when(letter.last_failed_ms) },
          {
            name: "Key",
            tight: true,
            cell: (letter) => h("span", { class: "id" }, letter.message.key ?? "–"),
          },
          {
            name: "Value",
            wide: true,
            cell: (letter) => h("span", { class: "cut code-line" }, preview(letter.message)),
          },
        ],
      }),
    ];
  }

  return { title: "Dead letters", every: 10_000, costly: true, refresh: load, view };
}

const keyOf = (error) => `${error.topic} ${error.fingerprint}`;
