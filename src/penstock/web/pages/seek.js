// Moving a group: where to, what that would do, and then to do it.

import { get, path, post, query } from "../api.js";
import { ask } from "../dialogs.js";
import { h } from "../dom.js";
import { exactly, plural } from "../format.js";
import { field, select, table } from "../widgets.js";
import { parsed, zoneName } from "../zone.js";

const PLACES = [
  ["earliest", "the beginning"],
  ["latest", "the end"],
  ["time", "a time"],
  ["offset", "an offset"],
];

export function seek(topic, group, refresh) {
  const wanted = { to: "earliest", offset: "", time: "", offsets: null, problem: null };
  let turn = 0;

  async function preview(redraw) {
    const mine = ++turn;
    wanted.offsets = null;
    wanted.problem = null;
    redraw();
    try {
      const found = await target();
      if (mine === turn) wanted.offsets = found;
    } catch (problem) {
      if (mine === turn) wanted.problem = problem;
    }
    redraw();
  }

  async function target() {
    if (wanted.to === "offset")
      return wanted.offset === "" ? null : group.partitions.map(() => Number(wanted.offset));
    if (wanted.to === "time" && !wanted.time) return null;
    const at = wanted.to === "time" ? parsed(wanted.time) : wanted.to;
    return (await get(path("topics", topic, "offsets") + query({ at }))).offsets;
  }

  const goal = () =>
    wanted.to === "offset"
      ? Number(wanted.offset)
      : wanted.to === "time"
        ? parsed(wanted.time)
        : wanted.to;
  const dialog = ask({
    title: `Move ${group.group}`,
    label: "Move the group",
    ready: () => wanted.offsets !== null,
    body: (redraw) => [
      h(
        "div",
        { class: "row" },
        field(
          "To",
          select("to", PLACES, {
            onchange: (event) => {
              wanted.to = event.currentTarget.value;
              preview(redraw);
            },
          }),
        ),
        wanted.to === "offset" &&
          field(
            "Offset",
            h("input", {
              name: "offset",
              type: "number",
              min: 0,
              required: true,
              oninput: (event) => {
                wanted.offset = event.currentTarget.value;
                preview(redraw);
              },
            }),
          ),
        wanted.to === "time" &&
          field(
            `Time (${zoneName()})`,
            h("input", {
              name: "time",
              type: "datetime-local",
              step: 1,
              required: true,
              oninput: (event) => {
                wanted.time = event.currentTarget.value;
                preview(redraw);
              },
            }),
          ),
      ),
      wanted.problem ? h("p", { class: "problem" }, wanted.problem.message) : moves(group, wanted.offsets),
    ],
    act: async () => {
      await post(path("topics", topic, "groups", group.group, "seek"), { to: goal() });
      await refresh();
      return `${group.group} was moved.`;
    },
  });
  preview(dialog.redraw);
}

// What a move would do, partition by partition.
function moves(group, offsets) {
  if (offsets === null)
    return h("p", { class: "note" }, "Choose a position; a preview of the effect is shown here first.");
  const rows = group.partitions.map((partition, at) => ({
    ...partition,
    to: Math.min(offsets[at], partition.end),
  }));
  const again = rows.reduce((total, row) => total + Math.max(row.floor - row.to, 0), 0);
  const left = rows.reduce((total, row) => total + Math.max(Math.min(row.to - row.floor, row.lag), 0), 0);
  const words = [
    again && `${plural(again, "message")} would be delivered again`,
    left && `up to ${plural(left, "message")} would be skipped`,
  ].filter(Boolean);
  return [
    h(
      "p",
      { class: again || left ? "warn-text" : "note" },
      words.length ? `${words.join(", ")}.` : "The group is there already.",
    ),
    h("p", { class: "note" }, "What its consumers hold now is no longer theirs."),
    table({
      label: "What would change",
      rows,
      key: (row) => row.partition,
      columns: [
        { name: "Partition", number: true, cell: (row) => row.partition },
        { name: "Now at", number: true, cell: (row) => exactly(row.floor) },
        { name: "Then at", number: true, cell: (row) => exactly(row.to) },
        {
          name: "Change",
          number: true,
          cell: (row) =>
            row.to === row.floor
              ? "–"
              : `${row.to > row.floor ? "+" : "−"}${exactly(Math.abs(row.to - row.floor))}`,
        },
      ],
    }),
  ];
}
