// Browses the messages of a topic without consuming them: the latest, from an offset or a time, or by key.

import { get, path, query } from "../api.js";
import { body, preview, size } from "../body.js";
import { h } from "../dom.js";
import { bytes, plural, timeMs } from "../format.js";
import { button, empty, field, hash, problemNote, section, select, table, when } from "../widgets.js";
import { parsed, zoneName } from "../zone.js";

const WAYS = [
  ["last", "latest messages"],
  ["offset", "from an offset"],
  ["time", "from a time"],
  ["key", "by key"],
];
const READABLE = { as: "text", decode: true };
const LIMIT = 25;
const SEARCHES_MAX = 20; // Requests per search by key, each of which reads 10,000 messages.

export class Browse {
  constructor(topic, redraw) {
    this.topic = topic;
    this.redraw = redraw;
    this.way = "last";
    this.fields = {};
    this.found = null;
    this.problem = null;
    this.busy = false;
    this.opened = new Set();
    this.raw = false;
  }

  // Called when the page is opened, and on every refresh while it shows the latest messages.
  async first() {
    if (this.found === null || (this.way === "last" && !this.busy && !this.opened.size)) await this.look();
  }

  async again() {
    await this.look();
    this.redraw();
  }

  async look() {
    this.busy = true;
    this.problem = null;
    try {
      this.found = await this.ask();
    } catch (problem) {
      if (problem.status === 401) throw problem;
      this.problem = problem;
      this.found ??= [];
    } finally {
      this.busy = false;
    }
  }

  async ask() {
    const at = path("topics", this.topic, "messages");
    const { partition, offset, from, key } = this.fields;
    if (this.way === "last") {
      const data = await get(at + query({ ...READABLE, last: LIMIT, partition }));
      return data.messages.sort((one, other) => other.timestamp - one.timestamp || other.offset - one.offset);
    }
    if (this.way === "offset")
      return (
        await get(at + query({ ...READABLE, limit: LIMIT, partition: partition || 0, offset: offset || 0 }))
      ).messages;
    if (this.way === "time")
      return (
        await get(
          at +
            query({
              ...READABLE,
              limit: LIMIT,
              partition,
              from_time: from ? parsed(from) : "",
            }),
        )
      ).messages;
    return this.search(at, key);
  }

  // By key: each response contains the offset from which to continue.
  async search(at, key) {
    const found = [];
    let offset = null;
    for (let turn = 0; turn < SEARCHES_MAX && found.length < LIMIT; turn++) {
      const data = await get(at + query({ ...READABLE, limit: LIMIT, key, offset }) + (key ? "" : "&key="));
      found.push(...data.messages);
      if (data.next_offset === null || data.next_offset === offset) break;
      offset = data.next_offset;
    }
    return found;
  }

  submit(event) {
    event.preventDefault();
    this.fields = Object.fromEntries(new FormData(event.currentTarget));
    this.opened.clear();
    this.again();
  }

  view() {
    return section(
      "Messages",
      { key: "browse" },
      this.form(),
      this.problem && problemNote(this.problem),
      this.table(),
    );
  }

  form() {
    const partition = field(
      "Partition",
      h("input", {
        name: "partition",
        type: "number",
        min: 0,
        placeholder: this.way === "offset" ? "0" : "all",
      }),
    );
    const inputs = {
      last: partition,
      offset: [
        partition,
        field("Offset", h("input", { name: "offset", type: "number", min: 0, placeholder: "0" })),
      ],
      time: [
        partition,
        field(`From (${zoneName()})`, h("input", { name: "from", type: "datetime-local", step: 1, required: true })),
      ],
      key: field(
        "Key",
        h("input", { name: "key", required: true, autocomplete: "off", spellcheck: "false" }),
      ),
    };
    return h(
      "form",
      { class: "row", onsubmit: (event) => this.submit(event) },
      field(
        "Show",
        select("way", WAYS, {
          onchange: (event) => {
            this.way = event.currentTarget.value;
            this.redraw();
          },
        }),
      ),
      inputs[this.way],
      h("button", { type: "submit", disabled: this.busy }, "Apply"),
    );
  }

  table() {
    const rows = this.found ?? [];
    return table({
      label: "Messages",
      rows,
      key: (message) => message.id,
      empty: empty(this.way === "last" ? "No messages yet." : "No messages found."),
      open: (message) => this.opened.has(message.id) && this.detail(message),
      columns: [
        { name: "", tight: true, cell: (message) => this.opener(message) },
        {
          name: "Published",
          tight: true,
          cell: (message) => when(message.timestamp, timeMs),
        },
        {
          name: "Position",
          tight: true,
          cell: (message) =>
            h(
              "a",
              { class: "id", href: hash("messages", message.id), title: "View trace" },
              `${message.partition}:${message.offset}`,
            ),
        },
        {
          name: "Key",
          cell: (message) =>
            h(
              "span",
              { class: "cut id" },
              message.key ?? (message.key_base64 ? `${message.key_base64} (base64)` : "–"),
            ),
        },
        {
          name: "Value",
          wide: true,
          cell: (message) => h("span", { class: "cut code-line" }, preview(message)),
        },
        {
          name: "Lane",
          tight: true,
          cell: (message) =>
            message.priority === "normal" ? h("span", { class: "note" }, "normal") : message.priority,
        },
        { name: "Size", number: true, cell: (message) => bytes(size(message)) },
      ],
    });
  }

  opener(message) {
    const open = this.opened.has(message.id);
    const toggle = () => {
      if (open) this.opened.delete(message.id);
      else this.opened.add(message.id);
      this.redraw();
    };
    return button(open ? "−" : "+", toggle, {
      kind: "plain opener",
      "aria-expanded": String(open),
      "aria-label": `${open ? "Close" : "Open"} ${message.id}`,
    });
  }

  detail(message) {
    const headers = Object.entries(message.headers);
    return [
      body(message, this, this.redraw),
      headers.length > 0 &&
        h(
          "dl",
          { class: "headers" },
          headers.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
        ),
      h(
        "p",
        null,
        h("a", { href: hash("messages", message.id) }, "View trace"),
        h("span", { class: "note" }, `  ${plural(headers.length, "header")}, ${message.priority} lane`),
      ),
    ];
  }
}
