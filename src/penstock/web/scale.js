// Round steps for the axes of charts: 1, 2, 5 for numbers; 15 s, 1 min, 5 min for times.

const SECONDS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
  3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 432_000,
];
const MINUTES = [1, 2, 5, 10, 15, 30];
// For any range of time: from a second to a week.
export const ANY_MINUTES = [
  1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800,
].map((seconds) => seconds / 60);
const STEPS_MAX = 4;

// What a chart measures: the smallest step of its axis, and how a value is written beside it.
export const ANY = { least: 1e-6, tick: (value) => short(value) };
export const COUNT = { least: 1, tick: (value) => short(value) };
export const RATE = { least: 0.1, tick: (value) => (value ? `${short(value)}/s` : "0") };
export const SPAN = { least: 0.001, steps: SECONDS, tick: tickSpan };

// The grid values of an axis that reaches up to `most`; at least two.
export function ticks(most, { least, steps }) {
  const step = steps?.find((each) => each * STEPS_MAX >= most) ?? decimalStep(most, steps ? 86_400 : least);
  const count = Math.max(1, Math.ceil(most / step - 1e-9));
  return Array.from({ length: count + 1 }, (_, at) => at * step);
}

function decimalStep(most, least) {
  let power = 1;
  while (power * 10 * STEPS_MAX * least < most) power *= 10;
  return [1, 2, 5, 10].map((each) => each * power * least).find((each) => each * STEPS_MAX >= most);
}

// Round times between two times, as many as fit into the given number of pixels; `steps` in minutes.
export function timeTicks(from, to, pixels, steps = MINUTES) {
  const room = Math.max(1, Math.floor(pixels / 64));
  const step = timeStep(from, to, room, steps);
  const found = [];
  for (let time = Math.ceil(from / step) * step; time <= to; time += step) found.push(time);
  return found;
}

function timeStep(from, to, room, steps) {
  const minutes = (to - from) / 60_000;
  const step =
    steps.find((each) => minutes / each <= room) ?? Math.max(60, Math.ceil(minutes / room / 1440) * 1440);
  return (steps === MINUTES ? Math.min(step, 60) : step) * 60_000;
}

function short(value) {
  if (value < 0) return `−${short(-value)}`;
  for (const [size, unit] of [
    [1e9, " G"],
    [1e6, " M"],
    [1e4, " k"],
  ])
    if (value >= size) return `${trimmed(value / (size === 1e4 ? 1e3 : size))}${unit}`;
  return trimmed(value);
}

function tickSpan(seconds) {
  if (!seconds) return "0";
  for (const [size, unit] of [
    [86_400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ])
    if (seconds >= size) return `${trimmed(seconds / size)} ${unit}`;
  return `${trimmed(seconds * 1000)} ms`;
}

const plain = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });
const trimmed = (value) => plain.format(value);
