"""Reports of Spark pipelines, from the broker's topic of pipelines.

Each pipeline reports its progress every few seconds, and only the last report counts.  Reports are cached, so
that later calls read only new ones.

A pipeline reads its topics as a stream group without members: ``judged`` recognises such a
group by its name, and judges it by what the pipeline reports.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from penstock.api.work import Work
from penstock.broker.frontend import judge_pipeline
from penstock.clock import Clock, SystemClock
from penstock.config.broker import ARCHIVE_GROUP
from penstock.errors import OffsetOutOfRange, PenstockError, TopicNotFound
from penstock.frontends.security.gateway import AuthGateway
from penstock.frontends.security.guarded import BrokerOperations
from penstock.model.info import (
    PIPELINE_LIVE,
    PIPELINE_LOST,
    PIPELINE_SILENT_MS,
    PIPELINES_TOPIC,
    GroupInfo,
    GroupState,
    Overview,
    PipelineRun,
)
from penstock.model.message import StoredMessage

READ_MESSAGES: Final = 1000  # At once.
STOP: Final = b"stop:"  # Requests to stop are in the same topic.
ARCHIVE: Final = "archive"  # The pipeline whose group has a name of its own, whatever a run is called.

Read = Callable[[int, int], Work[list[StoredMessage]]]  # From an offset on, up to so many.
G = TypeVar("G", GroupInfo, GroupState)


class PipelineLine(msgspec.Struct, frozen=True, kw_only=True):
    """The last run of a pipeline, and its state."""

    state: str  # As it reported, or "lost" if it should have reported since and did not.
    silent_seconds: float
    run: PipelineRun


class Reports:
    """The last report of each pipeline."""

    def __init__(self, gateway: AuthGateway, clock: Clock | None = None) -> None:
        self._gateway = gateway
        self._clock = clock or SystemClock()
        self._offset = 0
        self._runs: dict[str, PipelineRun] = {}

    def read(self, operations: BrokerOperations) -> Work[list[PipelineLine]]:
        """All reports, including those since the last call, if the caller may read them."""

        def read(offset: int, limit: int) -> Work[list[StoredMessage]]:
            return operations.read(PIPELINES_TOPIC, 0, offset, None, None, limit)

        yield from self._read_on(read)
        return [self._line(self._runs[name]) for name in sorted(self._runs)]

    def refresh(self) -> Work[None]:
        """Read new reports, by which groups are judged; if that fails, the known ones are used."""
        with suppress(PenstockError):
            yield from self._read_on(self._gateway.pipeline_reports)

    def sql_sockets(self, host: str) -> list[str]:
        """The sockets on which runs on this host answer queries."""
        lines = map(self._line, self._runs.values())
        return [
            line.run.sql_socket
            for line in lines
            if line.run.sql_socket and line.run.host == host and line.state in PIPELINE_LIVE
        ]

    def _read_on(self, read: Read) -> Work[None]:
        try:
            while (yield from self._read_some(read)):
                pass
        except (TopicNotFound, OffsetOutOfRange):  # There is none, or it was created again.
            self._offset = 0
            self._runs.clear()

    def _read_some(self, read: Read) -> Work[bool]:
        offset = self._offset
        found = yield from read(offset, READ_MESSAGES)
        for message in found:
            if message.key is None or message.key.startswith(STOP):
                continue
            try:
                run = msgspec.json.decode(message.value, type=PipelineRun)
            except msgspec.MsgspecError:  # In the words of another version.
                continue
            self._runs[run.name] = run
        if found and self._offset == offset:
            self._offset = found[-1].offset + 1
        return bool(found)

    def _line(self, run: PipelineRun) -> PipelineLine:
        silent_ms = max(self._clock.wall_ms() - run.updated_ms, 0)
        lost = run.state in PIPELINE_LIVE and silent_ms >= PIPELINE_SILENT_MS
        return PipelineLine(
            state=PIPELINE_LOST if lost else run.state, silent_seconds=silent_ms / 1000, run=run
        )

    # Their groups.

    def owner(self, group: GroupInfo | GroupState) -> str | None:
        """The pipeline that reads as this group; None if it is not the group of a pipeline."""
        run = self._owner(group)
        return None if run is None else run.name

    def judged(self, group: G) -> G:
        """The group with the verdict that takes its pipeline into account, if it has one."""
        run = self._owner(group)
        if run is None:
            return group
        return msgspec.structs.replace(group, verdict=judge_pipeline(group, run, self._line(run).state))

    def judged_all(self, overview: Overview) -> Overview:
        """All groups, with verdicts that take their pipelines into account."""
        return msgspec.structs.replace(overview, groups=[self.judged(group) for group in overview.groups])

    def _owner(self, group: GroupInfo | GroupState) -> PipelineRun | None:
        if group.kind != "stream" or group.consumers:  # Pipelines are no members.
            return None
        if group.group == ARCHIVE_GROUP:
            archives = [run for run in self._runs.values() if run.pipeline == ARCHIVE]
            return max(archives, key=lambda run: run.updated_ms, default=None)
        return self._runs.get(group.group)
