// Draws a result: its first column across, its numbers (up to four) as lines over times or numbers, or the first of them
// as bars.  Missing times of a regular series, and null, are gaps.

import { chart } from "./chart.js";
import { h } from "./dom.js";
import { day, exactly } from "./format.js";
import { missingBuckets } from "./gaps.js";
import { cellText, isNumber, isTime } from "./result.js";
import { ANY, ANY_MINUTES, ticks, timeTicks } from "./scale.js";
import { empty } from "./widgets.js";
import { both, written } from "./zone.js";

const TONES = ["first", "second", "third", "fourth"];
const BARS_MAX = 40;
const POINTS_MAX = 5000; // More than there are pixels, and slow.
const HEIGHT = 300;
const DAY_MS = 86_400_000;

export function drawing(result, redraw) {
  const { columns, rows } = result;
  const numbers = columns.map((column, at) => at).filter((at) => at > 0 && isNumber(columns[at]));
  if (!rows.length) return empty("The result has no rows to draw.");
  if (!numbers.length) {
    const words =
      "A chart has the first column across and numbers up: select a time or a name first, then one or more numbers.";
    return empty("The result has no numbers after its first column.", h("p", null, words));
  }
  return isTime(columns[0]) || isNumber(columns[0])
    ? lines(result, numbers, redraw)
    : bars(result, numbers[0]);
}

function lines({ columns, rows }, numbers, redraw) {
  const timed = isTime(columns[0]);
  const place = (value) => (timed ? Date.parse(value) : Number(value));
  const points = rows
    .filter((row) => row[0] !== null && !Number.isNaN(place(row[0])))
    .map((row) => [place(row[0]), row])
    .sort(([one], [other]) => one - other)
    .slice(0, POINTS_MAX);
  if (!points.length) return empty("The result has no rows to draw.");
  const times = points.map(([at]) => at);
  const [from, to] = [times[0], times[times.length - 1]];
  const figure = chart({
    id: "sql",
    title: columns[0].name,
    times,
    from,
    to,
    breaks: timed ? missingBuckets(times) : new Set(),
    lines: numbers.slice(0, TONES.length).map((at, number) => ({
      name: columns[at].name,
      tone: TONES[number],
      values: points.map(([, row]) => (row[at] === null ? null : Number(row[at]))),
    })),
    unit: ANY,
    format: (value) => exact.format(value),
    axis: timed ? timeAxis(from, to) : NUMBERS,
    redraw,
    height: HEIGHT,
  });
  const shown =
    points.length < rows.length &&
    h("p", { class: "note" }, `${exactly(points.length)} of ${exactly(rows.length)} rows are drawn.`);
  return h("div", { class: "drawing", key: "drawing" }, figure, shown);
}

const exact = new Intl.NumberFormat("en-US", { maximumFractionDigits: 6 });
const NUMBERS = {
  ticks: (from, to) =>
    ticks(Math.max(Math.abs(from), Math.abs(to)), ANY).filter((each) => each >= from && each <= to),
  tick: ANY.tick,
  name: (value) => exact.format(value),
  title: (value) => exact.format(value),
};

function timeAxis(from, to) {
  const days = to - from > 2 * DAY_MS;
  const seconds = to - from < 240_000;
  return {
    ticks: (begin, end, pixels) => timeTicks(begin, end, pixels, ANY_MINUTES),
    tick: (time) => (days ? day(time) : written(time).slice(11, seconds ? 19 : 16)),
    name: (time) => written(time).replace(/\.000$/, ""),
    title: both,
  };
}

function bars({ columns, rows }, at) {
  const shown = rows
    .slice(0, BARS_MAX)
    .map((row) => [cellText(row[0], columns[0]), row[at] === null ? null : Number(row[at])]);
  const most = Math.max(...shown.map(([, value]) => Math.abs(value ?? 0)), 0);
  return h(
    "div",
    { class: "drawing", key: "drawing" },
    h("p", { class: "note" }, `${columns[at].name} by ${columns[0].name}`),
    h(
      "dl",
      { class: "bars" },
      shown.map(([name, value]) => [
        h("dt", { title: name }, name),
        h(
          "dd",
          null,
          h("span", {
            class: `bar-length ${value < 0 ? "below" : ""}`,
            style: { width: `${most ? (Math.abs(value ?? 0) / most) * 100 : 0}%` },
          }),
          h("span", { class: "number" }, value === null ? "null" : exact.format(value)),
        ),
      ]),
    ),
    rows.length > shown.length &&
      h("p", { class: "note" }, `The first ${BARS_MAX} of ${exactly(rows.length)} rows.`),
  );
}
