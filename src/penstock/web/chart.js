// Time series charts in SVG: lines that differ in colour and dash, a few grid lines, and the values at the pointer.
// Deliberately small: up to one hour, a few lines, nothing to configure.

import { h } from "./dom.js";
import { clock } from "./format.js";
import { ticks, timeTicks } from "./scale.js";
import { both } from "./zone.js";

const LEFT = 52;
const RIGHT = 8;
const BOTTOM = 18;
const TOP = 8;
const widths = new Map(); // By chart: the available width in pixels.
const hovered = new Map(); // By chart: the position of the pointer, from 0 to 1.

// The charts of a page, over the last 5, 15, 30 or 60 minutes, depending on how much data there is.
// lines: { name, values, tone }, one value for each time; unit: what is measured (scale.js); format: formats a value
// for the legend.
export function charts({ times }, redraw, list) {
  const seen = (times[times.length - 1] - times[0]) / 60_000 || 0;
  const minutes = [5, 15, 30, 60].find((each) => seen <= each) ?? 60;
  return h(
    "div",
    { class: "charts", key: "charts" },
    list.map((each) => chart({ times, minutes, redraw, ...each })),
  );
}

function chart({ id, title, times, lines, unit, format, redraw, minutes, height = 150 }) {
  const now = times.length ? times[times.length - 1] : Date.now();
  const from = now - minutes * 60_000;
  const first = Math.max(0, times.findIndex((time) => time >= from) - 1);
  const width = widths.get(id) ?? 560;
  const marks = ticks(Math.max(0, ...lines.flatMap((line) => line.values.slice(first))), unit);
  const top = marks[marks.length - 1];
  const x = (time) => LEFT + (Math.max(time - from, 0) / (now - from)) * (width - LEFT - RIGHT);
  const y = (value) => TOP + (1 - value / top) * (height - TOP - BOTTOM);
  const at = pointed(id, times, from, now);
  const shown = at ?? times.length - 1;
  return h(
    "figure",
    { class: "chart", key: id, made: (node) => watchWidth(node, id, redraw) },
    h(
      "figcaption",
      null,
      h("span", { class: "chart-title" }, title),
      legend(lines, shown, format),
      h("time", { title: at !== null && both(times[at]) }, at === null ? "" : clock(times[at])),
    ),
    h(
      "svg",
      {
        width,
        height,
        viewBox: `0 0 ${width} ${height}`,
        role: "img",
        "aria-label": `${title}: ${lines.map((line) => `${line.name} ${format(line.values[shown] ?? 0)}`).join(", ")}`,
        onpointermove: (event) => hover(event, id, width, redraw),
        onpointerleave: () => {
          hovered.delete(id);
          redraw();
        },
      },
      grid(marks, y, width, unit.tick),
      timeAxis(from, now, x, width, height),
      lines.map((line, number) => [
        number === 0 && h("path", { class: `area ${line.tone}`, d: area(line, times, first, x, y) }),
        h("path", { class: `line ${line.tone}`, d: path(line, times, first, x, y) }),
      ]),
      at !== null &&
        h("line", {
          class: "pointer",
          x1: x(times[at]),
          x2: x(times[at]),
          y1: TOP,
          y2: height - BOTTOM,
        }),
      at !== null &&
        lines.map((line) =>
          h("circle", {
            class: `dot ${line.tone}`,
            cx: x(times[at]),
            cy: y(line.values[at]),
            r: 3,
          }),
        ),
    ),
  );
}

function legend(lines, shown, format) {
  return h(
    "span",
    { class: "legend" },
    lines.map((line) =>
      h(
        "span",
        null,
        h(
          "svg",
          { class: "swatch", viewBox: "0 0 18 8", "aria-hidden": "true" },
          h("path", { class: `line ${line.tone}`, d: "M0 4H18" }),
        ),
        line.name,
        " ",
        h("b", { class: "number" }, format(line.values[shown] ?? 0)),
      ),
    ),
  );
}

function grid(values, y, width, tick) {
  return values.map((value) => [
    h("line", { class: value ? "grid" : "axis", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
    h("text", { class: "tick", x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, tick(value)),
  ]);
}

function timeAxis(from, now, x, width, height) {
  return timeTicks(from, now, width - LEFT - RIGHT)
    .filter((time) => x(time) >= LEFT + 4 && x(time) <= width - RIGHT - 12)
    .map((time) => [
      h("line", {
        class: "axis",
        x1: x(time),
        x2: x(time),
        y1: height - BOTTOM,
        y2: height - BOTTOM + 3,
      }),
      h("text", { class: "tick", x: x(time), y: height - 3, "text-anchor": "middle" }, clock(time).slice(0, 5)),
    ]);
}

function points(line, times, first, x, y) {
  const found = [];
  for (let at = first; at < times.length; at++)
    found.push(`${x(times[at]).toFixed(1)} ${y(line.values[at]).toFixed(1)}`);
  return found;
}

function path(line, times, first, x, y) {
  const found = points(line, times, first, x, y);
  return found.length ? `M${found.join("L")}` : "M0 0";
}

function area(line, times, first, x, y) {
  const found = points(line, times, first, x, y);
  if (!found.length) return "M0 0";
  return `M${x(times[first]).toFixed(1)} ${y(0)}L${found.join("L")}L${x(times[times.length - 1]).toFixed(1)} ${y(0)}Z`;
}

function hover(event, id, width, redraw) {
  const left = event.currentTarget.getBoundingClientRect().left;
  hovered.set(id, Math.min(Math.max((event.clientX - left - LEFT) / (width - LEFT - RIGHT), 0), 1));
  redraw();
}

function pointed(id, times, from, now) {
  if (!hovered.has(id) || !times.length) return null;
  const wanted = from + hovered.get(id) * (now - from);
  let best = times.length - 1;
  for (let at = times.length - 1; at >= 0; at--)
    if (Math.abs(times[at] - wanted) < Math.abs(times[best] - wanted)) best = at;
  return best;
}

function watchWidth(node, id, redraw) {
  new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (!width || widths.get(id) === width) return;
    widths.set(id, width);
    redraw();
  }).observe(node);
}

// Growth per second, averaged over the ten seconds before each time.
export function rates(times, values, windowMs = 10_000) {
  let before = 0;
  const found = values.map((value, at) => {
    while (before + 1 < at && times[before + 1] <= times[at] - windowMs) before++;
    const elapsed = times[at] - times[before];
    return elapsed > 0 ? Math.max(((value - values[before]) * 1000) / elapsed, 0) : 0;
  });
  if (found.length > 1) found[0] = found[1]; // Unknown before the first sample.
  return found;
}
