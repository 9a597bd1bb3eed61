// The trace of one message: from publication through every delivery attempt in every group.

import { get, path, query } from "../api.js";
import { body } from "../body.js";
import { h } from "../dom.js";
import { clockMs, day, plural, span, timeMs } from "../format.js";
import { icon } from "../icons.js";
import { redrive } from "../redrive.js";
import { button, groupLink, heading, messageLink, section, topicLink, when } from "../widgets.js";
import { both } from "../zone.js";

// Events: tone and icon.
const EVENTS = {
  published: ["info", "good"],
  replicated: ["info", "good"],
  scheduled: ["quiet", "clock"],
  rescheduled: ["quiet", "clock"],
  cancelled: ["quiet", "cross"],
  delivered: ["info", "work"],
  redelivered: ["info", "work"],
  extended: ["quiet", "clock"],
  released: ["quiet", "idle"],
  "set aside": ["quiet", "pause"],
  acked: ["good", "good"],
  committed: ["good", "good"],
  nacked: ["bad", "cross"],
  rejected: ["bad", "cross"],
  "timed out": ["bad", "pause"],
  "connection lost": ["bad", "cross"],
  "dead-lettered": ["bad", "dead"],
  redriven: ["info", "up"],
  expired: ["warn", "clock"],
  skipped: ["quiet", "down"],
  "group moved": ["quiet", "up"],
};
const SETTLED = ["acked", "committed", "dead-lettered", "expired", "skipped"];
const FAILED = ["nacked", "rejected", "timed out", "connection lost"];
const AHEAD = ["due", "retained until"];
const ID = /(\S+:\d+:s?\d+)/; // In the details of an event.

export function messagePage({ parts: [id], redraw, refresh }) {
  const shown = { trace: null, message: null, raw: false };

  async function load() {
    const trace = await get(path("trace", id));
    shown.trace = trace;
    if (trace.offset !== null && !shown.message) {
      const found = await get(
        path("topics", trace.topic, "messages") +
          query({ as: "text", decode: true, partition: trace.partition, offset: trace.offset, limit: 1 }),
      );
      shown.message = found.messages.find((each) => each.offset === trace.offset) ?? null;
    }
  }

  function view() {
    const { trace, message } = shown;
    const own = trace.events.filter((event) => !event.group && !AHEAD.includes(event.event));
    const begin = own.find((event) => event.event === "published")?.time_ms ?? own[0]?.time_ms ?? 0;
    const groups = [...new Set(trace.events.filter((event) => event.group).map((event) => event.group))];
    return [
      heading(id, {
        before: [
          h("a", { href: "#/topics" }, "Topics"),
          " / ",
          topicLink(trace.topic),
          " / partition ",
          String(trace.partition),
          " /",
        ],
        after: [
          trace.key === null && !trace.key_base64
            ? "No key"
            : ["Key ", h("span", { class: "id" }, trace.key ?? trace.key_base64)],
          own.length > 0 && [", ", own[0].event, " ", when(own[0].time_ms, timeMs)],
        ],
      }),
      section(
        "Trace",
        {
          key: "trace",
          note: groups.length ? plural(groups.length, "group") : "not delivered to any group yet",
        },
        lane(own, begin),
        groups.map((group) => groupLane(trace, group, begin, refresh)),
        trace.events
          .filter((event) => AHEAD.includes(event.event))
          .map((event) =>
            h("p", { class: "note ahead" }, icon("clock"), `${event.event} `, when(event.time_ms, timeMs)),
          ),
      ),
      message && section("Message", { key: "message" }, body(message, shown, redraw), headersOf(message)),
    ];
  }

  return { title: id, every: 2000, costly: true, about: { what: "message", parts: [id] }, refresh: load, view };
}

function groupLane(trace, group, begin, refresh) {
  const end = Math.max(...trace.events.filter((event) => event.group).map((event) => event.time_ms));
  const events = trace.events.filter((event) => event.group === group);
  const last = events.findLast(
    (event) =>
      SETTLED.includes(event.event) || event.event.endsWith("delivered") || event.event === "redriven",
  );
  const settled = last && SETTLED.includes(last.event);
  const attempts = events.filter((event) => event.event.endsWith("delivered")).length;
  const outcome = settled
    ? `${last.event} ${span((last.time_ms - begin) / 1000)} after publish`
    : last?.event === "redriven"
      ? "redriven"
      : "not settled yet";
  const dead = settled && last.event === "dead-lettered";
  const what = `Message ${trace.id}, which failed in the group ${group}.`;
  return h(
    "div",
    { class: "lane", key: `lane ${group}` },
    h(
      "div",
      { class: "lane-head" },
      h("h3", null, groupLink(trace.topic, group)),
      h(
        "span",
        { class: dead ? "bad-text" : settled ? "good-text" : "note" },
        `${outcome}, ${plural(attempts, "attempt")}`,
      ),
      dead && button("Redrive…", () => redrive(trace.topic, { error: trace.id, group }, what, refresh)),
    ),
    strip(events, begin, end),
    lane(events, begin),
  );
}

// The attempts on a time axis from publication to the last event in any group: how long each took, and how long the
// message waited between them.
function strip(events, begin, end) {
  const percent = (time) => ((time - begin) / Math.max(end - begin, 1)) * 100;
  const attempts = events.flatMap((event, at) => {
    if (!event.event.endsWith("delivered")) return [];
    const over = events.slice(at + 1).find((later) => later.event !== "extended");
    const words = `attempt ${event.attempt}: ${over ? `${over.event} after ${span((over.time_ms - event.time_ms) / 1000)}` : "in flight"}`;
    const style = {
      left: `${percent(event.time_ms).toFixed(2)}%`,
      width: `${(percent(over?.time_ms ?? end) - percent(event.time_ms)).toFixed(2)}%`,
    };
    return [h("span", { class: EVENTS[over?.event]?.[0] ?? "info", style, title: words, key: at })];
  });
  if (!attempts.length) return null;
  return h(
    "div",
    {
      class: "strip",
      role: "img",
      "aria-label": `${plural(attempts.length, "attempt")} within ${span((end - begin) / 1000)} after publish`,
    },
    attempts,
  );
}

function lane(events, begin) {
  return h(
    "ol",
    { class: "timeline" },
    events.map((event, at) => {
      const written = day(event.time_ms) === day(begin) ? clockMs(event.time_ms) : timeMs(event.time_ms);
      const [tone, shape] = EVENTS[event.event] ?? ["quiet", "idle"];
      const attempt = event.attempt && event.event.endsWith("delivered") ? `attempt ${event.attempt}` : "";
      return h(
        "li",
        { class: tone, key: `${event.time_ms} ${event.event} ${at}` },
        icon(shape),
        h(
          "time",
          { datetime: new Date(event.time_ms).toISOString(), title: both(event.time_ms) },
          written,
          h("small", null, elapsed(event.time_ms - begin)),
        ),
        h(
          "div",
          null,
          h("p", null, h("b", null, event.event), " ", [event.consumer, attempt].filter(Boolean).join(", ")),
          event.detail &&
            event.event !== "redelivered" &&
            h("p", { class: FAILED.includes(event.event) ? "error-line" : "note" }, linked(event.detail)),
        ),
      );
    }),
  );
}

function elapsed(milliseconds) {
  return `${milliseconds < 0 ? "−" : "+"}${span(Math.abs(milliseconds) / 1000)}`;
}

// Turns message IDs into links.
function linked(text) {
  return text.split(ID).map((part, at) => (at % 2 ? messageLink(part) : part));
}

function headersOf(message) {
  const headers = Object.entries(message.headers);
  if (!headers.length) return null;
  return h(
    "dl",
    { class: "headers" },
    headers.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
  );
}
