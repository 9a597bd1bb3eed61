// The pipelines on Spark, by what each last told of itself.

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
          ? `${plural(pipelines.length, "pipeline")}, of which ${running === 1 ? "1 is" : `${running} are`} running.`
          : null,
      }),
      pipelines.length
        ? h("div", { class: "cards", key: "cards" }, pipelines.map(card))
        : section(
            "On Spark",
            { key: "none" },
            empty(
              "No pipeline has run yet.",
              h("p", null, "Pipelines archive topics into the lake, transform and replay them, on Spark:"),
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
      "Last word ",
      since(run.updated_ms),
      ", ",
      run.progressed_ms ? ["last batch ", since(run.progressed_ms)] : "no batch yet",
      ", started ",
      since(run.started_ms),
    ),
    h("p", { class: "note id" }, `${run.host}, process ${run.pid}, Spark on ${run.master}`),
  );
}
