// Seeks a group to another position, with a preview of the effect.

import { get, path, post, query } from "../api.js";
import { ask } from "../dialogs.js";
import { h } from "../dom.js";
import { exactly, plural } from "../format.js";
import { field, select, table } from "../widgets.js";
import { parsed, zoneName } from "../zone.js";

const POSITIONS = [
  ["earliest", "beginning"],
  ["latest", "end"],
  ["time", "point in time"],
  ["offset", "offset"],
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
    title: `Move ${group.group} to another position`,
    label: "Move group",
    ready: () => wanted.offsets !== null,
    body: (redraw) => [
      h(
        "div",
        { class: "row" },
        field(
          "Position",
          select("to", POSITIONS, {
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
      return `Group ${group.group} moved.`;
    },
  });
  preview(dialog.redraw);
}

// The effect of a seek on each partition.
function moves(group, offsets) {
  if (offsets === null)
    return h("p", { class: "note" }, "Choose a position to preview the effect.");
  const rows = group.partitions.map((partition, at) => ({
    ...partition,
    to: Math.min(offsets[at], partition.end),
  }));
  const again = rows.reduce((total, row) => total + Math.max(row.floor - row.to, 0), 0);
  const left = rows.reduce((total, row) => total + Math.max(Math.min(row.to - row.floor, row.lag), 0), 0);
  const words = [
    again && `${plural(again, "message")} will be delivered again`,
    left && `up to ${plural(left, "message")} will be skipped`,
  ].filter(Boolean);
  return [
    h(
      "p",
      { class: again || left ? "warn-text" : "note" },
      words.length ? `${words.join(", ")}.` : "The group is already at this position.",
    ),
    h("p", { class: "note" }, "Consumers lose the messages that they are processing now."),
    table({
      label: "Preview",
      rows,
      key: (row) => row.partition,
      columns: [
        { name: "Partition", number: true, cell: (row) => row.partition },
        { name: "Current", number: true, cell: (row) => exactly(row.floor) },
        { name: "New", number: true, cell: (row) => exactly(row.to) },
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
