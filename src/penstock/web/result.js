// The result of a query: a table in pages, the whole of a row, and a chart.

import { isJson, whole } from "./body.js";
import { h } from "./dom.js";
import { exactly, plural, span, visible } from "./format.js";
import { drawing } from "./plot.js";
import { button, empty, section } from "./widgets.js";
import { both, written } from "./zone.js";

const PAGE = 50;
const CELL_MAX = 200; // Characters of a value that are shown in the table.
const NUMBER = /^(tinyint|smallint|int|bigint|float|double|decimal)/;
const TIME = /^(timestamp|date)/;

export class Result {
  constructor({ columns, rows, truncated }, elapsedMs, redraw) {
    Object.assign(this, { columns, rows, truncated, elapsedMs, redraw });
    this.page = 0;
    this.tab = "table";
    this.opened = new Set(); // Numbers of rows.
  }

  view({ busy, download }) {
    const saver = (form) =>
      button(`↓ ${form.toUpperCase()}`, () => download(form), {
        disabled: busy,
        "aria-label": `Download ${form.toUpperCase()}`,
        title: "Runs the query again, and downloads up to 1,000,000 rows",
      });
    return section(
      "Result",
      {
        key: "result",
        note: this.words(),
        side: h("span", { class: "actions" }, saver("csv"), saver("json")),
      },
      this.columns.length > 0 && this.tabs(),
      this.tab === "chart" ? drawing(this, this.redraw) : this.table(),
    );
  }

  words() {
    const rows = this.truncated
      ? `the first ${exactly(this.rows.length)} rows`
      : plural(this.rows.length, "row");
    return `${rows} in ${span(this.elapsedMs / 1000)}`;
  }

  tabs() {
    const tab = (name, text) =>
      h(
        "button",
        {
          type: "button",
          role: "tab",
          "aria-selected": String(this.tab === name),
          onclick: () => this.set({ tab: name }),
        },
        text,
      );
    return h("div", { class: "tabs", role: "tablist" }, tab("table", "Table"), tab("chart", "Chart"));
  }

  set(changed) {
    Object.assign(this, changed);
    this.redraw();
  }

  table() {
    if (!this.rows.length) return empty("The result has no rows.");
    const from = this.page * PAGE;
    const shown = this.rows.slice(from, from + PAGE);
    return [
      h(
        "div",
        { class: "scroll result", tabindex: "0", role: "region", "aria-label": "Rows", key: "rows" },
        h(
          "table",
          null,
          h(
            "thead",
            null,
            h(
              "tr",
              null,
              h("th", { scope: "col" }),
              this.columns.map((column) => this.head(column)),
            ),
          ),
          h(
            "tbody",
            null,
            shown.map((row, at) => this.row(row, from + at)),
          ),
        ),
      ),
      this.rows.length > PAGE && this.pager(from, shown.length),
    ];
  }

  head(column) {
    return h("th", { scope: "col", class: isNumber(column) && "number", title: column.type }, column.name);
  }

  row(row, number) {
    const open = this.opened.has(number);
    return [
      h(
        "tr",
        { key: `row ${number}` },
        h(
          "td",
          { class: "tight" },
          button(open ? "−" : "+", () => this.toggle(number), {
            kind: "plain opener",
            "aria-expanded": String(open),
            "aria-label": `${open ? "Close" : "Open"} row ${number + 1}`,
          }),
        ),
        this.columns.map((column, at) =>
          h("td", { class: isNumber(column) && "number", "data-name": column.name }, cell(row[at], column)),
        ),
      ),
      open &&
        h(
          "tr",
          { key: `row ${number} open`, class: "opened" },
          h("td", { colspan: this.columns.length + 1 }, this.detail(row)),
        ),
    ];
  }

  toggle(number) {
    if (!this.opened.delete(number)) this.opened.add(number);
    this.redraw();
  }

  detail(row) {
    return h(
      "dl",
      { class: "values" },
      this.columns.map((column, at) => {
        const text = visible(cellText(row[at], column));
        return [
          h("dt", null, column.name, " ", h("small", null, column.type)),
          h(
            "dd",
            null,
            row[at] === null
              ? nothing()
              : text.length > 80 || isDocument(text)
                ? whole({ text })
                : h("span", { class: "id" }, text),
          ),
        ];
      }),
    );
  }

  pager(from, count) {
    const last = Math.ceil(this.rows.length / PAGE) - 1;
    const go = (page) => this.set({ page, opened: new Set() });
    return h(
      "div",
      { class: "pager", key: "pager" },
      button("First", () => go(0), { disabled: this.page === 0 }),
      button("Previous", () => go(this.page - 1), { disabled: this.page === 0 }),
      h(
        "span",
        { class: "note number" },
        `${exactly(from + 1)}–${exactly(from + count)} of ${exactly(this.rows.length)}`,
      ),
      button("Next", () => go(this.page + 1), { disabled: this.page === last }),
      button("Last", () => go(last), { disabled: this.page === last }),
    );
  }
}

export const isNumber = (column) => NUMBER.test(column.type);
export const isTime = (column) => TIME.test(column.type);

export const textOf = (value) => (typeof value === "string" ? value : JSON.stringify(value));

// A time of a result in milliseconds: in UTC, unless it has no time zone, and then it is shown as it is.
const timeOf = (value, column) =>
  column.type === "timestamp" && typeof value === "string" ? Date.parse(value) : NaN;

export function cellText(value, column) {
  const time = timeOf(value, column);
  return Number.isNaN(time) ? textOf(value) : written(time).replace(/\.000$/, "");
}

function cell(value, column) {
  if (value === null) return nothing();
  const time = timeOf(value, column);
  if (!Number.isNaN(time)) return h("time", { title: `${both(time)}\n${value}` }, cellText(value, column));
  const text = textOf(value);
  if (isNumber(column)) return text;
  return h("span", { class: "cut code-line" }, visible(text.slice(0, CELL_MAX)).replace(/\s+/g, " "));
}

const nothing = () => h("span", { class: "note" }, "null");
const isDocument = (text) => /^[[{]/.test(text) && isJson(text);
