// Small pictures, drawn in the colour of the text around them.

import { h } from "./dom.js";

const PATHS = {
  overview: "M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z",
  topics: "M2 3h12v2.5H2zM2 6.75h12v2.5H2zM2 10.5h12V13H2z",
  dead: "M8 1.5 15 14H1zM7.25 6v4h1.5V6zm0 5v1.5h1.5V11z",
  clock:
    "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 1.6a5.4 5.4 0 1 1 0 10.8A5.4 5.4 0 0 1 8 2.6zM7.25 4.5v4l3 1.8.75-1.2-2.25-1.35V4.5z",
  nodes: "M6 1h4v4H8.75v2H13v3h2v4h-4v-4h.5V8.500h-7V10H5v4H1v-4h2V7h4.250V5H6z",
  pipe: "M1 6h3V4h3v2h2V4h3v2h3v4h-3v2H9v-2H7v2H4v-2H1z",
  sql: "M2 2h12v3H2zM2 6.500h5v3H2zM9 6.500h5v3H9zM2 11h5v3H2zM9 11h5v3H9z",
  search: "M7 2a5 5 0 1 0 3 9l3 3 1-1-3-3a5 5 0 0 0-4-8zm0 1.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7z",
  out: "M2 2h7v1.6H3.6v8.8H9V14H2zM10.5 4.5 14 8l-3.500 3.500-1.100-1.100L11 8.800H6V7.200h5L9.400 5.600z",
  // Verdicts: each has a shape of its own.
  idle: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zm0 2a4 4 0 1 1 0 8 4 4 0 0 1 0-8z",
  good: "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2z",
  down: "M8 14 2 6h12z",
  up: "M8 2 2 10h12zM2 11.500h12V14H2z",
  work: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zm0 2v8a4 4 0 0 1 0-8z",
  cross: "M4 2 8 6l4-4 2 2-4 4 4 4-2 2-4-4-4 4-2-2 4-4-4-4z",
  block: "M2.500 2.500h11v11h-11z",
  pause: "M3 2h4v12H3zM9 2h4v12H9z",
  nobody: "M8 2 14 8 8 14 2 8zm0 2.800L4.800 8 8 11.200 11.200 8z",
};

export function icon(name) {
  return h(
    "svg",
    { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" },
    h("path", { d: PATHS[name] }),
  );
}
