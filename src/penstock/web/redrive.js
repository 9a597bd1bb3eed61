// Sending dead letters back: first counted, then done.

import { path, post } from "./api.js";
import { ask } from "./dialogs.js";
import { h } from "./dom.js";
import { plural } from "./format.js";
import { field } from "./widgets.js";

// which: { error, group } as the API has it; `what` says it in words.
export function redrive(topic, which, what, done) {
  const counted = { matched: null, problem: null };
  const route = path("topics", topic, "dead-letters", "redrive");
  const dialog = ask({
    title: "Redrive",
    label: "Redrive",
    ready: () => counted.matched > 0,
    body: () => [
      h("p", null, what),
      counted.problem
        ? h("p", { class: "problem" }, counted.problem.message)
        : h(
            "p",
            { class: "dry-run", role: "status" },
            counted.matched === null
              ? "Counting…"
              : [
                  h("b", null, plural(counted.matched, "dead letter")),
                  ` would go back to ${topic}, for the group they failed in.`,
                ],
          ),
      counted.matched > 1 &&
        h(
          "div",
          { class: "row" },
          field("At most", h("input", { name: "limit", type: "number", min: 1, placeholder: "all" })),
          field("A second", h("input", { name: "rate", type: "number", min: 1, placeholder: "no limit" })),
        ),
    ],
    act: async ({ limit, rate }) => {
      const told = await post(route, {
        ...which,
        ...(limit && { limit: Number(limit) }),
        ...(rate && { rate: Number(rate) }),
      });
      await done();
      return `${plural(told.redriven, "message")} went back to ${topic}.`;
    },
  });
  post(route, { ...which, dry_run: true }).then(
    (told) => {
      counted.matched = told.matched;
      dialog.redraw();
    },
    (problem) => {
      counted.problem = problem;
      dialog.redraw();
    },
  );
}
