// Dialogs that confirm a change, and short notifications.

import { h, render } from "./dom.js";
import { button, problemNote } from "./widgets.js";

const NOTE_MS = 6000;
let notes = [];

// body(redraw) renders the content; act(values) performs the action and may return a notification.
export function ask({ title, body, act, label, kind = "primary", dismiss = "Cancel", ready }) {
  const dialog = document.createElement("dialog");
  document.body.append(dialog);
  const shown = { problem: null, busy: false };
  const before = document.activeElement;
  const redraw = () => render(dialog, view());
  dialog.addEventListener("close", () => {
    dialog.remove();
    before?.focus?.();
  });

  function view() {
    return h(
      "form",
      { class: "dialog", onsubmit: submit },
      h("h2", null, title),
      h("div", { class: "dialog-body" }, body(redraw)),
      shown.problem && problemNote(shown.problem),
      h(
        "div",
        { class: "actions" },
        button(dismiss, () => dialog.close()),
        h("button", { type: "submit", class: kind, disabled: shown.busy || (ready && !ready()) }, label),
      ),
    );
  }

  async function submit(event) {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.currentTarget));
    shown.busy = true;
    shown.problem = null;
    redraw();
    try {
      const words = await act(values);
      dialog.close();
      if (words) note(words);
    } catch (problem) {
      shown.busy = false;
      shown.problem = problem;
      redraw();
    }
  }

  redraw();
  dialog.showModal();
  dialog.querySelector("input, select, textarea")?.focus();
  return { redraw, close: () => dialog.close() };
}

export function tell(title, ...content) {
  const dialog = document.createElement("dialog");
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  render(
    dialog,
    h(
      "div",
      { class: "dialog" },
      h("h2", null, title),
      content,
      h(
        "div",
        { class: "actions" },
        button("Close", () => dialog.close(), { kind: "primary" }),
      ),
    ),
  );
  dialog.showModal();
}

export function note(...words) {
  const made = { words, key: `${Date.now()} ${notes.length}` };
  notes = [...notes.slice(-2), made];
  showNotes();
  setTimeout(() => {
    notes = notes.filter((each) => each !== made);
    showNotes();
  }, NOTE_MS);
}

function showNotes() {
  render(
    document.getElementById("notes"),
    notes.map((each) => h("p", { class: "toast", key: each.key }, each.words)),
  );
}
