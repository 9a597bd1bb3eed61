// The form to publish a message.

import { path, post } from "../api.js";
import { jsonHint } from "../body.js";
import { h } from "../dom.js";
import { icon } from "../icons.js";
import { field, messageLink, problemNote, section, select } from "../widgets.js";

const LANES = ["critical", "high", "normal", "low", "background"];

export function publishForm(topic, redraw, published) {
  const shown = { problem: null, receipt: null, busy: false, text: "" };

  async function submit(event) {
    event.preventDefault();
    const form = event.currentTarget;
    const data = Object.fromEntries(new FormData(form));
    shown.busy = true;
    shown.problem = shown.receipt = null;
    redraw();
    try {
      shown.receipt = await post(path("topics", topic, "publish"), messageOf(data));
    } catch (problem) {
      shown.problem = problem;
    }
    shown.busy = false;
    redraw();
    if (shown.receipt) await published();
  }

  function view() {
    return section(
      "Publish",
      { key: "publish" },
      h(
        "form",
        { class: "stack", onsubmit: submit },
        field(
          "Value",
          h("textarea", {
            name: "text",
            rows: 5,
            spellcheck: "false",
            "aria-describedby": "value-hint",
            oninput: (event) => {
              shown.text = event.currentTarget.value;
              redraw();
            },
          }),
        ),
        hint(shown.text),
        field("Key", h("input", { name: "key", autocomplete: "off", spellcheck: "false" })),
        h(
          "details",
          null,
          h("summary", null, "Headers, priority, delay"),
          field(
            "Headers",
            h("textarea", {
              name: "headers",
              rows: 2,
              spellcheck: "false",
              placeholder: "name: value",
            }),
            "One per line.",
          ),
          h(
            "div",
            { class: "row" },
            field(
              "Priority",
              select(
                "priority",
                LANES.map((lane) => [lane, lane]),
                { chosen: "normal" },
              ),
            ),
            field("Delay", h("input", { name: "delay", placeholder: "5m", size: 6 })),
            field("Expires after", h("input", { name: "ttl", placeholder: "1h", size: 6 })),
            field(
              "Partition",
              h("input", { name: "partition", type: "number", min: 0, placeholder: "by key" }),
            ),
          ),
        ),
        h("button", { type: "submit", class: "primary", disabled: shown.busy }, "Publish"),
        shown.problem && problemNote(shown.problem),
        shown.receipt && receipt(shown.receipt),
      ),
    );
  }

  return { view };
}

// Describes the value below its field.  Invalid JSON can be published, too.
function hint(text) {
  const { tone, words } = jsonHint(text);
  return h(
    "p",
    { class: `hint ${tone}`, id: "value-hint", role: "status" },
    words && [tone && icon(tone === "good" ? "good" : "dead"), words],
  );
}

function receipt(data) {
  return h(
    "p",
    { class: "done", role: "status" },
    data.duplicate ? "Duplicate of: " : data.schedule_id ? "Scheduled: " : "Published: ",
    messageLink(data.id),
    h("span", { class: "note" }, `, durability ${data.durability}`),
  );
}

function messageOf({ text, key, headers, priority, delay, ttl, partition }) {
  const message = { text, priority };
  if (key) message.key = key;
  if (delay) message.delay = delay;
  if (ttl) message.ttl = ttl;
  if (partition) message.partition = Number(partition);
  const lines = headers.split("\n").filter((line) => line.trim());
  if (lines.length)
    message.headers = Object.fromEntries(
      lines.map((line) => {
        const at = line.indexOf(":");
        return at < 0 ? [line.trim(), ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
      }),
    );
  return message;
}
