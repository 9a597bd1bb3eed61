// The login form: user and password, or an API key.

import { logIn } from "../api.js";
import { h } from "../dom.js";
import { button, field, problemNote } from "../widgets.js";

export function loginPage({ redraw, entered }) {
  const shown = { byKey: false, problem: null, busy: false };

  async function submit(event) {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.currentTarget));
    shown.busy = true;
    redraw();
    try {
      await entered(await logIn(values));
    } catch (problem) {
      shown.problem = problem;
      shown.busy = false;
      redraw();
    }
  }

  function view() {
    return h(
      "form",
      { class: "card login", onsubmit: submit, key: shown.byKey ? "key" : "user" },
      h("h1", null, h("img", { src: "icon.svg", alt: "", width: 28, height: 28 }), "Penstock"),
      shown.byKey
        ? field(
            "API key",
            h("input", {
              name: "key",
              type: "password",
              required: true,
              autocomplete: "off",
              placeholder: "pk_…",
            }),
          )
        : [
            field("User", h("input", { name: "user", required: true, autocomplete: "username" })),
            field(
              "Password",
              h("input", {
                name: "password",
                type: "password",
                required: true,
                autocomplete: "current-password",
              }),
            ),
          ],
      shown.problem && problemNote({ message: reason(shown.problem) }),
      h("button", { type: "submit", class: "primary", disabled: shown.busy }, "Log in"),
      button(
        shown.byKey ? "Use a password instead" : "Use an API key instead",
        () => {
          shown.byKey = !shown.byKey;
          shown.problem = null;
          redraw();
        },
        { kind: "plain" },
      ),
    );
  }

  return { title: "Log in", every: 1e9, refresh: async () => {}, view };
}

// The rest of the sentence is meant for programs.
function reason(problem) {
  const words = problem.message.split("; ")[0];
  return `${words[0].toUpperCase()}${words.slice(1)}.`;
}
