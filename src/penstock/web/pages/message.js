// The journey of one message: from its publication through every attempt, in every group, to its end.

import { get, path, query } from "../api.js";
import { whole } from "../body.js";
import { h } from "../dom.js";
import { clockMs, day, plural, span, timeMs } from "../format.js";
import { icon } from "../icons.js";
import { redrive } from "../redrive.js";
import { button, groupLink, heading, messageLink, section, topicLink, when } from "../widgets.js";
import { both } from "../zone.js";

// What happened: a tone and a shape.
const EVENTS = {
  published: ["info", "good"],
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
  "connection lost": ["bad", "nobody"],
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
const ID = /(\S+:\d+:s?\d+)/; // In what is told of an event.

export function messagePage({ parts: [id], redraw, refresh }) {
  const shown = { journey: null, message: null };

  async function load() {
    const journey = await get(path("trace", id));
    shown.journey = journey;
    if (journey.offset !== null && !shown.message) {
      const found = await get(
        path("topics", journey.topic, "messages") +
          query({ as: "text", partition: journey.partition, offset: journey.offset, limit: 1 }),
      );
      shown.message = found.messages.find((each) => each.offset === journey.offset) ?? null;
    }
  }

  function view() {
    const { journey, message } = shown;
    const own = journey.events.filter((event) => !event.group && !AHEAD.includes(event.event));
    const begin = own.find((event) => event.event === "published")?.time_ms ?? own[0]?.time_ms ?? 0;
    const groups = [...new Set(journey.events.filter((event) => event.group).map((event) => event.group))];
    return [
      heading(id, {
        before: [
          h("a", { href: "#/topics" }, "Topics"),
          " / ",
          topicLink(journey.topic),
          " / partition ",
          String(journey.partition),
          " /",
        ],
        after: [
          journey.key === null && !journey.key_base64
            ? "No key"
            : ["Key ", h("span", { class: "id" }, journey.key ?? journey.key_base64)],
          own.length > 0 && [", ", own[0].event, " ", when(own[0].time_ms, timeMs)],
        ],
      }),
      section(
        "Journey",
        {
          key: "journey",
          note: groups.length ? plural(groups.length, "group") : "no group has seen it yet",
        },
        lane(own, begin),
        groups.map((group) => groupLane(journey, group, begin, refresh)),
        journey.events
          .filter((event) => AHEAD.includes(event.event))
          .map((event) =>
            h("p", { class: "note ahead" }, icon("clock"), `${event.event} `, when(event.time_ms, timeMs)),
          ),
      ),
      message && section("Message", { key: "message" }, whole(message), headersOf(message)),
    ];
  }

  return { title: id, every: 2000, dear: true, about: { what: "message", parts: [id] }, refresh: load, view };
}

function groupLane(journey, group, begin, refresh) {
  const end = Math.max(...journey.events.filter((event) => event.group).map((event) => event.time_ms));
  const events = journey.events.filter((event) => event.group === group);
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
  const what = `The message ${journey.id}, which failed in the group ${group}.`;
  return h(
    "div",
    { class: "lane", key: `lane ${group}` },
    h(
      "div",
      { class: "lane-head" },
      h("h3", null, groupLink(journey.topic, group)),
      h(
        "span",
        { class: dead ? "bad-text" : settled ? "good-text" : "note" },
        `${outcome}, ${plural(attempts, "attempt")}`,
      ),
      dead && button("Redrive…", () => redrive(journey.topic, { error: journey.id, group }, what, refresh)),
    ),
    strip(events, begin, end),
    lane(events, begin),
  );
}

// The attempts as they lie in time, from the publication to the last event in any group: how long each took, and
// how long the message waited between them.
function strip(events, begin, end) {
  const place = (time) => ((time - begin) / Math.max(end - begin, 1)) * 100;
  const attempts = events.flatMap((event, at) => {
    if (!event.event.endsWith("delivered")) return [];
    const over = events.slice(at + 1).find((later) => later.event !== "extended");
    const words = `attempt ${event.attempt}: ${over ? `${over.event} after ${span((over.time_ms - event.time_ms) / 1000)}` : "in flight"}`;
    const style = {
      left: `${place(event.time_ms).toFixed(2)}%`,
      width: `${(place(over?.time_ms ?? end) - place(event.time_ms)).toFixed(2)}%`,
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
      const told = day(event.time_ms) === day(begin) ? clockMs(event.time_ms) : timeMs(event.time_ms);
      const [tone, shape] = EVENTS[event.event] ?? ["quiet", "idle"];
      const attempt = event.attempt && event.event.endsWith("delivered") ? `attempt ${event.attempt}` : "";
      return h(
        "li",
        { class: tone, key: `${event.time_ms} ${event.event} ${at}` },
        icon(shape),
        h(
          "time",
          { datetime: new Date(event.time_ms).toISOString(), title: both(event.time_ms) },
          told,
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

// The ids of other messages lead to them.
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
