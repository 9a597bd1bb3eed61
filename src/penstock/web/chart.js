// Charts in SVG: lines that differ in colour and dash, a few grid lines, and the values at the pointer.  Missing
// values are gaps.  Deliberately small: a few lines, nothing to configure.

import { h } from "./dom.js";
import { clock } from "./format.js";
import { interruptions, isThere, parts } from "./gaps.js";
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
    list.map((each) => {
      const to = times.length ? times[times.length - 1] : Date.now();
      const breaks = interruptions(times);
      return chart({ times, from: to - minutes * 60_000, to, breaks, redraw, ...each });
    }),
  );
}

const HOUR = { ticks: timeTicks, tick: (time) => clock(time).slice(0, 5), name: clock, title: both };

// One chart: `times` (or other numbers, in order) from `from` to `to`; `breaks` has the positions where lines are
// interrupted (gaps.js); `axis` says how positions are written.
export function chart(options) {
  const {
    id,
    title,
    times,
    lines,
    unit,
    format,
    redraw,
    from,
    to: now,
    breaks,
    axis = HOUR,
    height = 150,
  } = options;
  const first = Math.max(0, times.findIndex((time) => time >= from) - 1);
  const width = widths.get(id) ?? 560;
  const values = lines.flatMap((line) => line.values.slice(first)).filter(isThere);
  const marks = valueMarks(values, unit);
  const [bottom, top] = [marks[0], marks[marks.length - 1]];
  const x = (time) => LEFT + (Math.max(time - from, 0) / (now - from || 1)) * (width - LEFT - RIGHT);
  const y = (value) => TOP + ((top - value) / (top - bottom)) * (height - TOP - BOTTOM);
  const write = (value) => (isThere(value) ? format(value) : "–");
  const at = pointed(id, times, from, now);
  const shown = at ?? times.length - 1;
  return h(
    "figure",
    { class: "chart", key: id, made: (node) => watchWidth(node, id, redraw) },
    h(
      "figcaption",
      null,
      h("span", { class: "chart-title" }, title),
      legend(lines, shown, write),
      h("time", { title: at !== null && axis.title(times[at]) }, at === null ? "" : axis.name(times[at])),
    ),
    h(
      "svg",
      {
        width,
        height,
        viewBox: `0 0 ${width} ${height}`,
        role: "img",
        "aria-label": `${title}: ${lines.map((line) => `${line.name} ${write(line.values[shown])}`).join(", ")}`,
        onpointermove: (event) => hover(event, id, width, redraw),
        onpointerleave: () => {
          hovered.delete(id);
          redraw();
        },
      },
      grid(marks, y, width, unit.tick),
      timeAxis(axis, from, now, x, width, height),
      lines.map((line, number) => {
        const drawn = parts(line.values, first, breaks).map((part) =>
          part.map((each) => [x(times[each]).toFixed(1), y(line.values[each]).toFixed(1)]),
        );
        return [
          number === 0 && h("path", { class: `area ${line.tone}`, d: area(drawn, y(0)) }),
          h("path", { class: `line ${line.tone}`, d: path(drawn) }),
        ];
      }),
      at !== null &&
        h("line", {
          class: "pointer",
          x1: x(times[at]),
          x2: x(times[at]),
          y1: TOP,
          y2: height - BOTTOM,
        }),
      at !== null &&
        lines
          .filter((line) => isThere(line.values[at]))
          .map((line) =>
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

// The grid values; below zero the same as above it.
function valueMarks(values, unit) {
  const [least, most] = values.reduce(
    ([low, high], value) => [Math.min(low, value), Math.max(high, value)],
    [0, 0],
  );
  const marks = ticks(Math.max(most, -least), unit);
  const above = most > 0 || least === 0 ? marks : [0];
  return [
    ...(least < 0
      ? marks
          .slice(1)
          .reverse()
          .map((mark) => -mark)
      : []),
    ...above,
  ];
}

function legend(lines, shown, write) {
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
        h("b", { class: "number" }, write(line.values[shown])),
      ),
    ),
  );
}

function grid(values, y, width, tick) {
  return values.map((value) => [
    h("line", {
      class: value ? "grid" : "axis",
      x1: LEFT,
      x2: width - RIGHT,
      y1: y(value),
      y2: y(value),
    }),
    h("text", { class: "tick", x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, tick(value)),
  ]);
}

function timeAxis(axis, from, now, x, width, height) {
  return axis
    .ticks(from, now, width - LEFT - RIGHT)
    .filter((time) => x(time) >= LEFT + 4 && x(time) <= width - RIGHT - 12)
    .map((time) => [
      h("line", {
        class: "axis",
        x1: x(time),
        x2: x(time),
        y1: height - BOTTOM,
        y2: height - BOTTOM + 3,
      }),
      h("text", { class: "tick", x: x(time), y: height - 3, "text-anchor": "middle" }, axis.tick(time)),
    ]);
}

// A part of a single point is a short dash.
function path(drawn) {
  return (
    drawn
      .map((part) => `M${part.map((point) => point.join(" ")).join("L")}${part.length === 1 ? "h2" : ""}`)
      .join("") || "M0 0"
  );
}

function area(drawn, ground) {
  const base = ground.toFixed(1);
  return (
    drawn
      .map(
        (part) =>
          `M${part[0][0]} ${base}L${part.map((point) => point.join(" ")).join("L")}L${part[part.length - 1][0]} ${base}Z`,
      )
      .join("") || "M0 0"
  );
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
