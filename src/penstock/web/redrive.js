// Redrives dead letters, after a dry run that counts them.

import { path, post } from "./api.js";
import { ask } from "./dialogs.js";
import { h } from "./dom.js";
import { plural } from "./format.js";
import { field } from "./widgets.js";

// which: { error, group } for the API; `what` describes it to the user.
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
                  ` will be returned to ${topic}, for the group in which ${counted.matched === 1 ? "it" : "they"} failed.`,
                ],
          ),
      counted.matched > 1 &&
        h(
          "div",
          { class: "row" },
          field("Limit", h("input", { name: "limit", type: "number", min: 1, placeholder: "all" })),
          field("Per second", h("input", { name: "rate", type: "number", min: 1, placeholder: "no limit" })),
        ),
    ],
    act: async ({ limit, rate }) => {
      const data = await post(route, {
        ...which,
        ...(limit && { limit: Number(limit) }),
        ...(rate && { rate: Number(rate) }),
      });
      await done();
      return `Returned ${plural(data.redriven, "message")} to ${topic}.`;
    },
  });
  post(route, { ...which, dry_run: true }).then(
    (data) => {
      counted.matched = data.matched;
      dialog.redraw();
    },
    (problem) => {
      counted.problem = problem;
      dialog.redraw();
    },
  );
}
