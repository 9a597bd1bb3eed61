// Numbers, sizes, spans of time and times, as people read them.

import { written } from "./zone.js";

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

// 950, 9,421, 12.4 k, 3.07 M
export function count(number) {
  if (number === null || number === undefined) return "–";
  const size = Math.abs(number);
  if (size < 10_000) return whole.format(number);
  for (const [limit, unit] of [
    [1e6, "k"],
    [1e9, "M"],
    [1e12, "G"],
  ]) {
    if (size < limit * 0.9995) return `${digits(number / (limit / 1000))} ${unit}`;
  }
  return `${digits(number / 1e12)} T`;
}

// Control characters, which no font has, as \xNN: binary values contain them.
export const visible = (text) =>
  text.replace(
    /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g,
    (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );

export const exactly = (number) => whole.format(number);

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "–";
  if (perSecond === 0) return "0/s";
  if (perSecond < 0.1) return "<0.1/s";
  return perSecond < 100 ? `${perSecond.toFixed(1)}/s` : `${count(Math.round(perSecond))}/s`;
}

export function bytes(size) {
  if (size < 1000) return `${size} B`;
  for (const [limit, unit] of [
    [1e6, "kB"],
    [1e9, "MB"],
    [1e12, "GB"],
  ]) {
    if (size < limit * 0.9995) return `${digits(size / (limit / 1000))} ${unit}`;
  }
  return `${digits(size / 1e12)} TB`;
}

function digits(number) {
  const size = Math.abs(number);
  return number.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0);
}

// 340 ms, 4.2 s, 45 s, 12 min, 3.5 h, 8 d
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds === 0) return "0 s";
  if (seconds < 1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

// How long messages waited; 0 means that there were none.
export const latency = (seconds) => (seconds ? span(seconds) : "–");

export const spanMs = (milliseconds) => (milliseconds === null ? "forever" : span(milliseconds / 1000));

// Times, in the zone that was chosen (zone.js): 12:03:04 today, Nov 16 12:03 otherwise.
export function time(milliseconds) {
  return isToday(milliseconds)
    ? clock(milliseconds)
    : `${day(milliseconds)} ${clock(milliseconds).slice(0, 5)}`;
}

export const clock = (milliseconds) => written(milliseconds).slice(11, 19);
export const clockMs = (milliseconds) => written(milliseconds).slice(11);

// 12:03:04.005 today, Nov 16 12:03:04.005 otherwise.
export function timeMs(milliseconds) {
  return isToday(milliseconds) ? clockMs(milliseconds) : `${day(milliseconds)} ${clockMs(milliseconds)}`;
}

export function day(milliseconds) {
  const [year, month, date] = written(milliseconds).slice(0, 10).split("-");
  const thisYear = written(Date.now()).startsWith(year);
  return `${MONTHS[month - 1]} ${Number(date)}${thisYear ? "" : ` ${year}`}`;
}

const isToday = (milliseconds) => written(milliseconds).slice(0, 10) === written(Date.now()).slice(0, 10);

export function ago(milliseconds, now = Date.now()) {
  const seconds = (now - milliseconds) / 1000;
  if (seconds < -1) return `in ${span(-seconds)}`;
  return seconds < 2 ? "just now" : `${span(seconds)} ago`;
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}
