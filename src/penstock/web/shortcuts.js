// The pages and their keyboard shortcuts.

import { tell } from "./dialogs.js";
import { h } from "./dom.js";

export const PAGES = [
  { href: "#/", name: "Overview", icon: "overview", key: "o" },
  { href: "#/topics", name: "Topics", icon: "topics", key: "t" },
  { href: "#/dead-letters", name: "Dead letters", icon: "dead", key: "d" },
  { href: "#/schedules", name: "Schedules", icon: "clock", key: "s" },
  { href: "#/pipelines", name: "Pipelines", icon: "pipe", key: "p" },
  { href: "#/sql", name: "SQL", icon: "sql", key: "q" },
];

// A page that only the nodes of a cluster have.
export function addClusterPage() {
  if (PAGES.some((page) => page.key === "c")) return;
  PAGES.push({ href: "#/cluster", name: "Cluster", icon: "nodes", key: "c" });
}

let leading = false; // "g" was pressed, and the next key names a page.

export function showKeys() {
  const keys = [
    ["/", "search topics, groups, pages and message IDs (also Ctrl+K)"],
    ...PAGES.map((page) => [`g ${page.key}`, page.name.toLowerCase()]),
    ["r", "refresh now"],
    ["space", "pause or resume updates"],
    ["?", "show this list"],
  ];
  tell(
    "Keyboard shortcuts",
    h(
      "dl",
      { class: "keys" },
      keys.map(([key, what]) => [
        h(
          "dt",
          null,
          key.split(" ").map((part) => h("kbd", null, part)),
        ),
        h("dd", null, what),
      ]),
    ),
  );
}

// Whether keys pressed in the element are text input rather than shortcuts.
export const typing = (element) => Boolean(element?.closest?.("input, textarea, select, dialog"));

// ready: whether the user is logged in.
export function listen({ ready, refresh, pause, find }) {
  addEventListener("keydown", (event) => {
    if (event.key === "k" && (event.ctrlKey || event.metaKey) && ready() && !document.querySelector("dialog")) {
      event.preventDefault();
      find();
      return;
    }
    if (typing(event.target) || event.ctrlKey || event.metaKey || event.altKey || !ready()) return;
    const page = leading && PAGES.find((each) => each.key === event.key);
    leading = !page && event.key === "g";
    if (page) location.hash = page.href;
    else if (event.key === "/") find();
    else if (event.key === "?") showKeys();
    else if (event.key === "r") refresh();
    else if (event.key === " " && event.target === document.body) pause();
    else return;
    event.preventDefault();
  });
}
