// The Spark pipelines, by their latest report.

import { get } from "../api.js";
import { h } from "../dom.js";
import { count, exactly, plural, rate, span } from "../format.js";
import { bar, command, empty, heading, section, since, state, tiles } from "../widgets.js";

export function pipelinesPage() {
  let pipelines = [];

  async function load() {
    pipelines = (await get("/v1/pipelines")).pipelines;
  }

  function view() {
    const running = pipelines.filter((pipeline) => pipeline.state === "running").length;
    return [
      heading("Pipelines", {
        after: pipelines.length
          ? `${plural(pipelines.length, "pipeline")}, ${running} running.`
          : null,
      }),
      pipelines.length
        ? h("div", { class: "cards", key: "cards" }, pipelines.map(card))
        : section(
            "Pipelines",
            { key: "none" },
            empty(
              "No pipelines have run yet.",
              h("p", null, "Pipelines run on Spark. They archive topics to the lake, transform them and replay them:"),
              command("penstock pipeline run archive"),
            ),
          ),
    ];
  }

  return { title: "Pipelines", every: 3000, refresh: load, view };
}

function card({ run, state: word }) {
  return section(
    run.name,
    { key: run.name, note: run.pipeline === run.name ? "" : run.pipeline, side: state(word) },
    tiles([
      ["Records", count(run.records)],
      ["Rows", rate(run.rows_per_second)],
      ["Lag", span(run.lag_seconds)],
      ["Batches", count(run.batches)],
      ["Files", count(run.files)],
      ...(run.late ? [["Late", count(run.late)]] : []),
    ]),
    run.total !== null &&
      h(
        "div",
        { class: "progress" },
        bar(run.records, run.total, `${exactly(run.records)} of ${exactly(run.total)} records`),
        h("span", { class: "number" }, `${exactly(run.records)} of ${exactly(run.total)}`),
      ),
    run.error && h("pre", { class: "code bad", tabindex: "0" }, run.error),
    run.note && h("p", { class: "note" }, run.note),
    h(
      "p",
      { class: word === "lost" ? "bad-text" : "note" },
      "Last report ",
      since(run.updated_ms),
      ", ",
      run.progressed_ms ? ["last batch ", since(run.progressed_ms)] : "no batches yet",
      ", started ",
      since(run.started_ms),
    ),
    h("p", { class: "note id" }, `${run.host}, process ${run.pid}, Spark on ${run.master}`),
  );
}
