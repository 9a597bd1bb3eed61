// The search box: fuzzy search for topics, groups, pages and message IDs.  It follows the ARIA combobox pattern: the
// focus stays in the box, and the arrow keys select an entry.

import { get } from "./api.js";
import { h } from "./dom.js";
import { best } from "./fuzzy.js";
import { icon } from "./icons.js";
import { PAGES } from "./shortcuts.js";
import { hash } from "./widgets.js";

const SHOWN_MAX = 8;
const KNOWN_MS = 10_000; // How long loaded names are used before they are loaded again.
const MESSAGE = /^.+:\d+:s?\d+$/;
const OTHER = [{ name: "HTTP API", what: "page", icon: "overview", href: "/docs" }];

export class Search {
  constructor(redraw) {
    this.redraw = redraw;
    this.open = false;
    this.text = "";
    this.chosen = 0;
    this.names = [];
    this.asked = 0;
    this.learning = null; // The request for names that is under way.
  }

  focus() {
    document.getElementById("jump")?.focus();
  }

  // Loads the names that the user may see.
  learn() {
    if (Date.now() - this.asked >= KNOWN_MS) {
      this.asked = Date.now();
      this.learning = this.ask();
    }
    return this.learning;
  }

  async ask() {
    try {
      const { topics, groups } = await get("/v1/overview");
      this.names = [
        ...topics.map(({ topic }) => ({
          name: topic,
          what: "topic",
          icon: "topics",
          href: hash("topics", topic),
        })),
        ...groups.map(({ state: { topic, group } }) => ({
          name: group,
          what: `group on ${topic}`,
          icon: "work",
          href: hash("topics", topic, "groups", group),
        })),
      ];
    } catch {
      this.asked = 0; // The page shows the error; pages and IDs can still be found.
    }
    if (this.open) this.redraw();
  }

  found() {
    const wanted = this.text.trim();
    const pages = PAGES.map((page) => ({ name: page.name, what: "page", icon: page.icon, href: page.href }));
    if (!wanted) return pages.slice(0, SHOWN_MAX);
    const message = MESSAGE.test(wanted)
      ? [{ name: wanted, what: "message", icon: "dead", href: hash("messages", wanted), positions: [] }]
      : [];
    return [...message, ...best(wanted, [...this.names, ...pages, ...OTHER], SHOWN_MAX - message.length)];
  }

  change(text) {
    this.text = text;
    this.open = true;
    this.chosen = 0;
    this.learn();
    this.redraw();
  }

  close() {
    this.open = false;
    this.redraw();
  }

  go(entry) {
    const input = document.getElementById("jump");
    this.text = input.value = "";
    this.open = false;
    input.blur();
    this.redraw();
    location.href = entry.href;
  }

  async submit(event) {
    event.preventDefault();
    if (!this.open) return;
    await this.learn(); // Enter may be pressed before the names are loaded.
    const entry = this.found()[this.chosen];
    if (entry) this.go(entry);
  }

  onkey(event) {
    const many = this.found().length;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && many) {
      this.chosen = this.open ? (this.chosen + step + many) % many : 0;
      this.open = true;
    } else if (event.key === "Escape" && this.open) this.open = false;
    else return;
    event.preventDefault();
    this.redraw();
  }

  view() {
    const found = this.open ? this.found() : [];
    return h(
      "form",
      { class: "jump", role: "search", onsubmit: (event) => this.submit(event) },
      icon("search"),
      h("input", {
        name: "to",
        id: "jump",
        role: "combobox",
        placeholder: "Search",
        "aria-label": "Search topics, groups, pages and message IDs",
        "aria-expanded": String(this.open),
        "aria-controls": "found",
        "aria-autocomplete": "list",
        "aria-activedescendant": this.open && found.length ? `found-${this.chosen}` : false,
        autocomplete: "off",
        spellcheck: "false",
        oninput: (event) => this.change(event.currentTarget.value),
        onfocus: (event) => this.change(event.currentTarget.value),
        onclick: (event) => !this.open && this.change(event.currentTarget.value),
        onblur: () => this.close(),
        onkeydown: (event) => this.onkey(event),
      }),
      h("kbd", null, "/"),
      this.open && this.list(found),
    );
  }

  list(found) {
    const wanted = this.text.trim();
    return h(
      "div",
      { class: "found", key: "found" },
      h(
        "ul",
        { id: "found", role: "listbox", "aria-label": "Search results" },
        found.map((entry, at) => this.entry(entry, at)),
      ),
      h(
        "p",
        { class: "note", role: "status" },
        found.length ? false : `No results for “${wanted}”. A message ID looks like orders:0:42.`,
      ),
    );
  }

  entry(entry, at) {
    return h(
      "li",
      {
        key: entry.href,
        id: `found-${at}`,
        role: "option",
        "aria-selected": String(at === this.chosen),
        onpointerdown: (event) => event.preventDefault(), // The focus stays in the box until the click.
        onclick: () => this.go(entry),
      },
      icon(entry.icon),
      h("span", { class: "cut" }, marked(entry)),
      h("small", null, entry.what),
    );
  }
}

// The matching letters in bold.
function marked({ name, positions = [] }) {
  const here = new Set(positions);
  return [...name].map((letter, at) => (here.has(at) ? h("b", null, letter) : letter));
}
