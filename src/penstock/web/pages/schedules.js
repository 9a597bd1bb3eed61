// Scheduled messages of all topics.

import { get, patch, path, query, remove } from "../api.js";
import { preview } from "../body.js";
import { ask } from "../dialogs.js";
import { h } from "../dom.js";
import { count, plural } from "../format.js";
import {
  button,
  command,
  empty,
  field,
  heading,
  messageLink,
  section,
  since,
  table,
  topicLink,
  when,
} from "../widgets.js";

const SHOWN_MAX = 200; // Per topic.

export function schedulesPage({ refresh }) {
  const shown = { schedules: [], total: 0 };

  async function load() {
    const { topics } = await get("/v1/overview");
    const waiting = topics.filter((topic) => topic.scheduled > 0);
    const data = await Promise.all(
      waiting.map((topic) =>
        get(path("topics", topic.topic, "schedules") + query({ as: "text", limit: SHOWN_MAX })),
      ),
    );
    shown.total = waiting.reduce((sum, topic) => sum + topic.scheduled, 0);
    shown.schedules = data.flatMap((each) => each.schedules).sort((one, other) => one.due_ms - other.due_ms);
  }

  function view() {
    const hidden = shown.total - shown.schedules.length;
    return [
      heading("Schedules", {
        after: shown.total ? `${plural(shown.total, "message")} scheduled for later.` : null,
      }),
      section(
        "Scheduled messages",
        { key: "waiting", note: hidden > 0 && `${count(hidden)} more not shown` },
        table({
          label: "Scheduled messages",
          rows: shown.schedules,
          key: (entry) => entry.id,
          empty: empty(
            "Nothing is scheduled.",
            h("p", null, "Publish a message with a delay, or on a recurring schedule:"),
            command(
              "penstock produce orders 'a reminder' --delay 30m\npenstock schedule add reports 'monday' --cron '0 8 * * 1'",
            ),
          ),
          columns: [
            { name: "Due", tight: true, cell: (entry) => since(entry.due_ms) },
            { name: "At", tight: true, cell: (entry) => when(entry.due_ms) },
            {
              name: "Repeats",
              tight: true,
              cell: (entry) =>
                entry.cron
                  ? h(
                      "span",
                      { class: "id", title: entry.timezone },
                      entry.cron,
                      h("small", { class: "note" }, ` ${entry.timezone}`),
                    )
                  : h("span", { class: "note" }, "once"),
            },
            { name: "Topic", cell: (entry) => topicLink(entry.topic) },
            { name: "ID", tight: true, cell: (entry) => messageLink(entry.id) },
            { name: "Key", cell: (entry) => h("span", { class: "id cut" }, entry.key ?? "–") },
            {
              name: "Value",
              wide: true,
              cell: (entry) => h("span", { class: "cut code-line" }, preview(entry)),
            },
            {
              name: "",
              tight: true,
              acts: true,
              cell: (entry) =>
                h(
                  "div",
                  { class: "actions" },
                  !entry.cron && button("Reschedule…", () => move(entry, refresh)),
                  button("Cancel…", () => cancel(entry, refresh)),
                ),
            },
          ],
        }),
      ),
    ];
  }

  return { title: "Schedules", every: 5000, refresh: load, view };
}

function cancel(entry, refresh) {
  ask({
    title: "Cancel this message?",
    label: "Cancel message",
    dismiss: "Keep it",
    kind: "danger",
    body: () => [
      h(
        "p",
        null,
        h("span", { class: "id" }, entry.id),
        entry.cron ? ` (${entry.cron}) will not be published any more.` : " will not be published.",
      ),
      h("pre", { class: "code", tabindex: "0" }, preview(entry)),
    ],
    act: async () => {
      const { outcome } = await remove(path("schedules", entry.id));
      await refresh();
      return outcome === "cancelled"
        ? `${entry.id} cancelled.`
        : `${entry.id} could not be cancelled: it is ${outcome}.`;
    },
  });
}

function move(entry, refresh) {
  ask({
    title: "Reschedule message",
    label: "Reschedule",
    body: () =>
      field(
        "Due in",
        h("input", { name: "delay", required: true, placeholder: "30m", autocomplete: "off" }),
        "From now, for example 90s, 30m or 2d.",
      ),
    act: async ({ delay }) => {
      const { rescheduled } = await patch(path("schedules", entry.id), { delay });
      await refresh();
      return rescheduled ? `${entry.id} is now due in ${delay}.` : `${entry.id} is no longer scheduled.`;
    },
  });
}
