"""The pipelines on Spark, by what they report about themselves."""

import msgspec

from penstock.frontends.http.call import HttpCall
from penstock.frontends.http.monitoring.reports import PipelineLine


class PipelineList(msgspec.Struct, frozen=True):
    """The pipelines that have run, by name."""

    pipelines: list[PipelineLine]


async def list_pipelines(call: HttpCall) -> PipelineList:
    """The pipelines that have run: how far each is, how fast, and how it ended."""
    return PipelineList(await call.shared.reports.read(call.operations))
