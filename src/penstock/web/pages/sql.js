// Runs SQL on the Spark session beside the server: editor, tables and columns, results, history and saved queries.
//
// Nothing is asked again by itself except the list of tables.  What was typed, and the last result, are kept while the
// user looks at other pages.

import { get, path, query as queryString, run } from "../api.js";
import { note } from "../dialogs.js";
import { h } from "../dom.js";
import { plural, span } from "../format.js";
import { forget, history, keep, remember, saved } from "../queries.js";
import { Result } from "../result.js";
import { button, command, empty, field, heading, problemNote, section, select } from "../widgets.js";

const TABLES_MS = 30_000;
const LOOK_MS = 5000; // While there is no session.
const TICK_MS = 200; // How often the elapsed time is shown.
const LIMITS = [100, 1000, 10_000, 100_000];
const DOWNLOAD_ROWS = 1_000_000;
const TIMEOUT = "10m"; // The most that the server allows; a user cancels.
const FORMS = { csv: "text/csv", json: "application/json" };
const VIEWS = ["__journal", "__dlq"]; // Of a topic.
const PLAIN = /^[A-Za-z_]\w*$/;

// Kept from page to page, for one user.
const NOTHING = { text: null, limit: 1000, result: null, problem: null, running: null, words: "", turn: -1 };
const kept = { ...NOTHING, owner: null };

// Called after a login: another user sees nothing of this one.
export function belongTo(owner) {
  if (kept.owner !== owner) {
    kept.running?.abort.abort();
    Object.assign(kept, NOTHING, { owner });
  }
}

export function sqlPage({ redraw, refresh }) {
  let tables = [];
  let available = null; // Whether there is a session; null: not known yet.
  let filter = "";
  const opened = new Map(); // By table: its columns, or null while they are loading.

  async function load() {
    try {
      tables = (await get("/v1/sql/tables")).tables;
      available = true;
    } catch (problem) {
      if (problem.code !== "SQL_UNAVAILABLE") throw problem;
      available = false;
    }
    page.every = available ? TABLES_MS : LOOK_MS;
  }

  // Running.

  async function execute() {
    const text = editor()?.value ?? kept.text ?? "";
    if (!text.trim() || kept.running) return;
    kept.text = text;
    kept.turn = -1;
    await running("", async (signal) => {
      remember(text.trim());
      kept.problem = null;
      const answer = await run(text, kept.limit, TIMEOUT, FORMS.json, signal);
      const elapsed = performance.now() - kept.running.began;
      kept.result = new Result(await answer.json(), elapsed, redraw);
      kept.result.text = text;
    });
  }

  async function download(form) {
    const text = kept.result.text ?? kept.text;
    await running(`Preparing the ${form.toUpperCase()} file`, async (signal) => {
      const answer = await run(text, DOWNLOAD_ROWS, TIMEOUT, FORMS[form], signal);
      offer(await answer.blob(), `penstock-query.${form}`);
      if (answer.headers.get("penstock-truncated") === "true")
        note(`The file has the first ${DOWNLOAD_ROWS.toLocaleString("en-US")} rows.`);
    });
  }

  async function running(what, work) {
    const abort = new AbortController();
    kept.running = { abort, what, began: performance.now() };
    kept.words = "";
    const timer = setInterval(redraw, TICK_MS);
    redraw();
    try {
      await work(abort.signal);
    } catch (problem) {
      if (abort.signal.aborted) kept.words = kept.running ? `Cancelled after ${elapsed()}.` : "";
      else if (problem.status === 401) refresh();
      else if (problem.code === "SQL_UNAVAILABLE") await load();
      else if (what) note(problem.message);
      else [kept.problem, kept.result] = [problem, null];
    } finally {
      clearInterval(timer);
      if (kept.running?.abort === abort) kept.running = null;
      redraw();
    }
  }

  const elapsed = () => span((performance.now() - kept.running.began) / 1000);

  // The editor.

  const editor = () => document.getElementById("sql");

  function write(text) {
    kept.text = text;
    const area = editor();
    if (area) area.value = text;
    redraw();
    area?.focus();
  }

  function insert(name) {
    const area = editor();
    area.focus();
    area.setRangeText(PLAIN.test(name) ? name : `\`${name}\``, area.selectionStart, area.selectionEnd, "end");
    kept.text = area.value;
    redraw();
  }

  function press(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) execute();
    else if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown"))
      recall(event.key === "ArrowUp" ? 1 : -1);
    else return;
    event.preventDefault();
  }

  function recall(step) {
    const texts = history();
    const turn = Math.min(Math.max(kept.turn + step, -1), texts.length - 1);
    if (turn === kept.turn) return;
    kept.turn = turn;
    write(turn < 0 ? "" : texts[turn]);
  }

  function saveAs(event) {
    event.preventDefault();
    const { name } = Object.fromEntries(new FormData(event.currentTarget));
    const text = (kept.text ?? "").trim();
    if (!text) return note("There is no query to save.");
    note(
      keep(name.trim(), text)
        ? `Saved as ${name.trim()}.`
        : "This browser does not store anything for this page.",
    );
    event.currentTarget.reset();
    redraw();
  }

  function editorView() {
    const lines = (kept.text ?? "").split("\n").length;
    const busy = Boolean(kept.running);
    return section(
      "Query",
      {
        key: "query",
        note: "Spark SQL",
        side: h("span", { class: "note" }, h("kbd", null, "Ctrl"), " ", h("kbd", null, "Enter"), " runs it"),
      },
      h("textarea", {
        id: "sql",
        name: "query",
        class: "editor",
        "aria-label": "Query",
        rows: Math.min(Math.max(lines + 1, 5), 18),
        spellcheck: "false",
        autocomplete: "off",
        autocapitalize: "off",
        placeholder: "select * from orders limit 100",
        value: kept.text ?? "",
        oninput: (event) => {
          kept.text = event.currentTarget.value;
          redraw();
        },
        onkeydown: press,
      }),
      h(
        "div",
        { class: "row query-acts" },
        busy
          ? button("Cancel", () => kept.running.abort.abort(), { kind: "danger", key: "act" })
          : button("Run", execute, {
              kind: "primary",
              key: "act",
              disabled: !(kept.text ?? "").trim(),
            }),
        h(
          "label",
          { class: "inline" },
          h("span", null, "Rows"),
          select(
            "limit",
            LIMITS.map((each) => [each, each.toLocaleString("en-US")]),
            {
              chosen: kept.limit,
              onchange: (event) => (kept.limit = Number(event.currentTarget.value)),
            },
          ),
        ),
        h(
          "span",
          { class: "note elapsed", role: "status" },
          busy ? `${kept.running.what || "Running"}, ${elapsed()}` : kept.words,
        ),
      ),
    );
  }

  // Results.

  function resultView() {
    if (kept.problem) return section("Result", { key: "result" }, problemNote(kept.problem));
    if (kept.result) return kept.result.view({ busy: Boolean(kept.running), download });
    const topic = tables.find((name) => !name.includes("__"));
    return section(
      "Result",
      { key: "result" },
      empty(
        kept.running ? "The query is running." : "No query has run yet.",
        !kept.running &&
          topic && [
            h("p", null, "Examples:"),
            h(
              "div",
              { class: "examples" },
              examples(topic).map(([words, text]) => button(words, () => write(text))),
            ),
          ],
      ),
    );
  }

  // Tables.

  function tablesView() {
    const wanted = filter.toLowerCase();
    const found = tables.filter((name) => name.toLowerCase().includes(wanted));
    const own = (name) =>
      VIEWS.some((view) => name.endsWith(view) && tables.includes(name.slice(0, -view.length)));
    const [broker, others] = [[], []];
    for (const name of found) if (!own(name)) (name.startsWith("__") ? broker : others).push(name);
    const only = found.filter((name) => own(name) && !others.includes(name.replace(/__(journal|dlq)$/, "")));
    return section(
      "Tables",
      { key: "tables", note: plural(tables.length, "table") },
      h("input", {
        type: "search",
        name: "filter",
        placeholder: "Filter",
        "aria-label": "Filter tables",
        autocomplete: "off",
        value: filter,
        oninput: (event) => {
          filter = event.currentTarget.value;
          redraw();
        },
      }),
      found.length
        ? h(
            "ul",
            { class: "tree", tabindex: "0", "aria-label": "Tables" },
            [...others, ...only, ...broker].map((name) => tableItem(name)),
          )
        : h(
            "p",
            { class: "note" },
            tables.length ? "No table matches." : "No tables yet. Every topic is a table.",
          ),
    );
  }

  function tableItem(name) {
    const open = opened.has(name);
    const views = VIEWS.map((view) => name + view).filter((view) => tables.includes(view));
    return h(
      "li",
      { key: name },
      h(
        "div",
        { class: "tree-row" },
        button(open ? "−" : "+", () => toggle(name), {
          kind: "plain opener",
          "aria-expanded": String(open),
          "aria-label": `${open ? "Close" : "Open"} ${name}`,
        }),
        button(name, () => insert(name), { kind: "plain name", title: `Insert ${name}` }),
      ),
      open && [
        columnsOf(name),
        views.length > 0 &&
          h(
            "ul",
            { class: "tree" },
            views.map((view) => tableItem(view)),
          ),
      ],
    );
  }

  function columnsOf(name) {
    const columns = opened.get(name);
    if (!columns) return h("p", { class: "note" }, "Loading");
    if (columns.problem) return h("p", { class: "bad-text" }, columns.problem);
    return h(
      "ul",
      { class: "columns" },
      columns.map((column) =>
        h(
          "li",
          { key: column.name },
          button(column.name, () => insert(column.name), {
            kind: "plain name",
            title: `Insert ${column.name}`,
          }),
          h("small", { title: column.type }, column.type),
        ),
      ),
    );
  }

  async function toggle(name) {
    if (opened.delete(name)) return redraw();
    opened.set(name, null);
    redraw();
    let found;
    try {
      found = (await get(path("sql", "tables", name) + queryString({}))).columns;
    } catch (problem) {
      found = { problem: problem.message };
    }
    if (opened.has(name)) opened.set(name, found);
    redraw();
  }

  // Saved queries, and those that were run.

  function queriesView() {
    const texts = history();
    const names = saved();
    return section(
      "Queries",
      { key: "queries", note: "kept in this browser" },
      h(
        "form",
        { class: "row save", onsubmit: saveAs },
        h("input", {
          name: "name",
          required: true,
          maxlength: 80,
          placeholder: "Name",
          "aria-label": "Name of the query",
          autocomplete: "off",
        }),
        h("button", { type: "submit" }, "Save"),
      ),
      names.length > 0 &&
        h(
          "ul",
          { class: "queries", "aria-label": "Saved queries" },
          names.map(({ name, text }) =>
            h(
              "li",
              { key: name },
              button(name, () => write(text), { kind: "plain name", title: text }),
              button("×", () => forgetOne(name), {
                kind: "plain",
                "aria-label": `Delete ${name}`,
                title: "Delete",
              }),
            ),
          ),
        ),
      texts.length > 0 &&
        h(
          "details",
          { key: "history" },
          h("summary", null, `History (${texts.length})`),
          h(
            "ul",
            { class: "queries", "aria-label": "History" },
            texts.map((text, at) =>
              h(
                "li",
                { key: `${at} ${text}` },
                button(text.replace(/\s+/g, " "), () => write(text), {
                  kind: "plain name code-line",
                  title: text,
                }),
              ),
            ),
          ),
          h(
            "p",
            { class: "note" },
            h("kbd", null, "Alt"),
            " ",
            h("kbd", null, "↑"),
            " and ",
            h("kbd", null, "↓"),
            " in the editor go through them.",
          ),
        ),
    );
  }

  function forgetOne(name) {
    forget(name);
    redraw();
  }

  function view() {
    const title = heading("SQL", {
      after: "Queries over all messages: the archive in the lake and the newest in the log.",
    });
    if (!available) return [title, unavailable()];
    return [
      title,
      h(
        "div",
        { class: "beside sql", key: "sql" },
        h("div", { class: "pile" }, editorView(), resultView()),
        h("div", { class: "pile" }, tablesView(), queriesView()),
      ),
    ];
  }

  const page = { title: "SQL", every: TABLES_MS, costly: true, refresh: load, view };
  return page;
}

function unavailable() {
  return section(
    "No Spark session",
    { key: "unavailable" },
    empty(
      "SQL needs Spark, and no session is running on the machine of this server.",
      h("p", null, "Start the server with its archive, which also answers queries:"),
      command("penstock serve --archive"),
      h(
        "p",
        null,
        "Or start a session beside this server, which ends after half an hour without a query:",
      ),
      command("penstock sql --keep"),
      h("p", { class: "note" }, "Spark takes about 20 seconds to start. The page continues automatically."),
    ),
  );
}

function examples(topic) {
  const name = PLAIN.test(topic) ? topic : `\`${topic}\``;
  return [
    [
      "Latest messages",
      `select timestamp, partition, offset, key, value\nfrom ${name}\norder by timestamp desc\nlimit 100`,
    ],
    [
      "Messages per minute",
      `select date_trunc('minute', timestamp) as minute, count(*) as messages\nfrom ${name}\nwhere timestamp > now() - interval 1 hour\ngroup by minute\norder by minute`,
    ],
    [
      "Messages by key",
      `select key, count(*) as messages, max(timestamp) as latest\nfrom ${name}\ngroup by key\norder by messages desc\nlimit 20`,
    ],
    ["Groups", "select topic, `group`, verdict, lag\nfrom __groups\norder by lag desc"],
  ];
}

function offer(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
