"""The pipelines on Spark, by what they tell of themselves."""

import msgspec

from penstock.frontends.http.call import Call
from penstock.info import PIPELINE_LIVE, PIPELINE_LOST, PIPELINE_SILENT_MS, PipelineRun


class PipelineLine(msgspec.Struct, frozen=True, kw_only=True):
    """The last run of a pipeline, and how it is."""

    state: str  # Its own word, or "lost" if it should have said more and did not.
    silent_seconds: float
    run: PipelineRun


class PipelineList(msgspec.Struct, frozen=True):
    """The pipelines that have run, by name."""

    pipelines: list[PipelineLine]


async def list_pipelines(call: Call) -> PipelineList:
    """The pipelines that have run: how far each is, how fast, and how it ended."""
    runs = await call.shared.reports.read(call.operations)
    now_ms = call.shared.watch.now_ms()
    return PipelineList([_line(run, now_ms) for run in runs])


def _line(run: PipelineRun, now_ms: int) -> PipelineLine:
    silent_ms = max(now_ms - run.updated_ms, 0)
    lost = run.state in PIPELINE_LIVE and silent_ms >= PIPELINE_SILENT_MS
    return PipelineLine(state=PIPELINE_LOST if lost else run.state, silent_seconds=silent_ms / 1000, run=run)
