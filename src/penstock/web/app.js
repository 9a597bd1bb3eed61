// The dashboard, a single-page application.  The fragment of the address selects the page.
//
//   address ──> page(context) ──> { title, every, refresh(), view() }
//                                   refresh loads data from the server, view returns what to render
//
// The current page is refreshed every `every` milliseconds, but at most every two seconds, less often if responses
// are slow (`costly` pages make the server read a lot), and not at all while the tab is hidden or updates are paused.

import { Problem, logOut, who } from "./api.js";
import { note } from "./dialogs.js";
import { h, render } from "./dom.js";
import { clock } from "./format.js";
import { icon } from "./icons.js";
import { clusterPage } from "./pages/cluster.js";
import { deadLettersPage } from "./pages/dead_letters.js";
import { groupPage } from "./pages/group.js";
import { loginPage } from "./pages/login.js";
import { messagePage } from "./pages/message.js";
import { Missing } from "./pages/missing.js";
import { overviewPage } from "./pages/overview.js";
import { pipelinesPage } from "./pages/pipelines.js";
import { schedulesPage } from "./pages/schedules.js";
import { belongTo, sqlPage } from "./pages/sql.js";
import { topicPage } from "./pages/topic.js";
import { topicsPage } from "./pages/topics.js";
import { Search } from "./search.js";
import { PAGES, addClusterPage, listen, showKeys, typing } from "./shortcuts.js";
import { button, empty, heading, problemNote } from "./widgets.js";
import { both, choose, isUtc, zoneName } from "./zone.js";

const EVERY_MIN_MS = 2000;
const PAUSES = 5; // Wait at least this many times as long as the responses took ...
const PAUSES_COSTLY = 50; // ... or this many times on a costly page.
const ROUTES = [
  [/^$/, overviewPage],
  [/^topics$/, topicsPage],
  [/^topics\/([^/]+)$/, topicPage],
  [/^topics\/([^/]+)\/groups\/([^/]+)$/, groupPage],
  [/^messages\/([^/]+)$/, messagePage],
  [/^dead-letters$/, deadLettersPage],
  [/^schedules$/, schedulesPage],
  [/^pipelines$/, pipelinesPage],
  [/^sql$/, sqlPage],
  [/^cluster$/, clusterPage],
];

const GONE = new Set(["TOPIC_NOT_FOUND", "GROUP_NOT_FOUND", "PARTITION_NOT_FOUND", "OFFSET_OUT_OF_RANGE"]);

const app = {
  page: null,
  missing: null, // Shown instead of the page if its subject does not exist.
  visitor: null,
  problem: null,
  updated: null,
  paused: false,
  timer: null,
  turn: 0,
};
const search = new Search(redraw);

// Routing.

function find() {
  const address = location.hash.replace(/^#\/?/, "").replace(/\?.*$/, "");
  for (const [pattern, page] of ROUTES) {
    const match = pattern.exec(address);
    if (match) return page({ parts: match.slice(1).map(decodeURIComponent), redraw, refresh });
  }
  return {
    title: "Page not found",
    every: 60_000,
    refresh: async () => {},
    view: () => empty("This page does not exist.", h("p", null, h("a", { href: "#/" }, "Go to the overview"))),
  };
}

async function open() {
  belongTo(app.visitor.name);
  app.page = find();
  app.problem = app.missing = null;
  app.updated = null;
  document.title = `${app.page.title} · Penstock`;
  redraw();
  // On narrow screens the pages are in one row that scrolls.
  document.querySelector("nav a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  await refresh();
  scrollTo(0, 0);
}

// Refreshing.

async function refresh() {
  clearTimeout(app.timer);
  const turn = ++app.turn;
  const page = app.page;
  const began = performance.now();
  try {
    await page.refresh();
    if (turn !== app.turn) return;
    app.problem = app.missing = null;
    app.updated = Date.now();
  } catch (problem) {
    if (turn !== app.turn) return;
    if (!(problem instanceof Problem)) throw problem;
    if (problem.status === 401) return askWho();
    app.problem = problem;
    if (isMissing(problem, page.about)) {
      app.missing ??= new Missing(page.about, { redraw, refresh });
      app.missing.look();
    }
  }
  redraw();
  if (!app.paused && !document.hidden)
    app.timer = setTimeout(
      refresh,
      Math.max(page.every, EVERY_MIN_MS, (performance.now() - began) * (page.costly ? PAUSES_COSTLY : PAUSES)),
    );
}

// An invalid message ID counts as a missing message, too.
const isMissing = ({ code }, about) =>
  about && (GONE.has(code) || (about.what === "message" && code === "VALUE_INVALID"));

async function askWho() {
  app.visitor = await who();
  if (app.visitor.cluster) addClusterPage();
  if (!loggedIn()) {
    app.page = loginPage({ redraw, entered });
    document.title = "Log in · Penstock";
    redraw();
    document.querySelector("main input")?.focus();
    return;
  }
  await open();
}

async function entered(visitor) {
  app.visitor = visitor;
  if (app.visitor.cluster) addClusterPage();
  await open();
}

// Rendering.

const loggedIn = () => app.visitor && (!app.visitor.required || app.visitor.name);

function redraw() {
  render(
    document.getElementById("shell"),
    loggedIn() ? [sidebar(), main()] : h("main", { id: "main", class: "alone" }, app.page?.view()),
  );
}

function sidebar() {
  const here = location.hash || "#/";
  const current = (page) =>
    page.href === "#/"
      ? here === "#/"
      : here.startsWith(page.href) || (page.key === "t" && here.startsWith("#/messages"));
  return h(
    "div",
    { class: "side-bar", key: "side" },
    h(
      "a",
      { class: "brand", href: "#/" },
      h("img", { src: "icon.svg", alt: "", width: 22, height: 22 }),
      "Penstock",
    ),
    search.view(),
    h(
      "nav",
      { "aria-label": "Pages" },
      PAGES.map((page) =>
        h("a", { href: page.href, "aria-current": current(page) && "page" }, icon(page.icon), page.name),
      ),
    ),
    h(
      "div",
      { class: "foot" },
      zones(),
      freshness(),
      visitor(),
      h(
        "p",
        null,
        h("a", { href: "/docs" }, "HTTP API"),
        " ",
        button("Shortcuts", showKeys, { kind: "plain", title: "Keyboard shortcuts (?)" }),
      ),
    ),
  );
}

function freshness() {
  const stale = app.problem !== null && app.problem.status === 0; // An error response still is a response.
  const words = stale
    ? "Disconnected"
    : app.paused
      ? "Paused"
      : app.updated
        ? `Live, ${clock(app.updated)}`
        : app.problem
          ? "Live"
          : "Loading";
  return h(
    "button",
    {
      type: "button",
      class: `fresh ${stale ? "bad" : app.paused ? "quiet" : "good"}`,
      onclick: pause,
      title: app.paused ? "Resume" : "Pause",
      "aria-pressed": String(app.paused),
    },
    icon(app.paused ? "pause" : stale ? "cross" : "good"),
    words,
  );
}

// The time zone of all times on the page; it is named only here.
function zones() {
  const option = (value, text, chosen) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": String(chosen),
        onclick: () => {
          choose(value);
          redraw();
        },
      },
      text,
    );
  return h(
    "div",
    { class: "zones", title: both(Date.now()) },
    h(
      "div",
      { class: "switch", role: "group", "aria-label": "Time zone" },
      option("local", "Local", !isUtc()),
      option("utc", "UTC", isUtc()),
    ),
    h("small", null, isUtc() ? "all times in UTC" : zoneName()),
  );
}

function visitor() {
  if (!app.visitor.required) return null;
  return h(
    "p",
    { class: "visitor" },
    h("span", null, app.visitor.name),
    button("Log out", leave, { kind: "plain" }),
  );
}

function main() {
  const loading = app.updated === null && !app.problem;
  if (app.missing) return h("main", { id: "main", key: "main" }, app.missing.view());
  return h(
    "main",
    { id: "main", key: "main" },
    app.problem && problemNote(app.problem),
    loading
      ? heading(app.page.title, {})
      : app.updated !== null || app.page.stale
        ? app.page.view()
        : heading(app.page.title, {}),
  );
}

// User actions.

function pause() {
  app.paused = !app.paused;
  clearTimeout(app.timer);
  if (app.paused) redraw();
  else refresh();
}

async function leave() {
  await logOut();
  note("Logged out.");
  await askWho();
}

addEventListener("hashchange", () => {
  if (!loggedIn()) return; // The address is evaluated after the login.
  open();
  if (typing(document.activeElement)) return; // The user has focused the search box with "/" meanwhile.
  document.getElementById("title")?.focus({ preventScroll: true });
});
listen({ ready: loggedIn, refresh, pause, find: () => search.focus() });
document.addEventListener("visibilitychange", () =>
  document.hidden ? clearTimeout(app.timer) : !app.paused && app.page && refresh(),
);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  const main = document.getElementById("main");
  main.tabIndex = -1;
  main.focus();
});
askWho();
