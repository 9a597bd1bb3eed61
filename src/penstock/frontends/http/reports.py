"""What the pipelines on Spark tell of themselves, in the broker's topic of pipelines.

Each tells every few seconds how far it is, and only the last word counts.  What was
read once is remembered, so that asking again reads only what came since.
"""

from typing import Final

import msgspec

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.broker.operations import LocalOperations
from penstock.errors import OffsetOutOfRange, TopicNotFound
from penstock.info import PIPELINES_TOPIC, PipelineRun

READ_MESSAGES: Final = 1000  # At once.
STOP: Final = b"stop:"  # Requests to stop are in the same topic.


class Reports:
    """The last word of every pipeline, as far as the topic was read."""

    def __init__(self, broker: EmbeddedAsyncBroker) -> None:
        self._broker = broker
        self._offset = 0
        self._runs: dict[str, PipelineRun] = {}

    async def read(self, operations: LocalOperations) -> list[PipelineRun]:
        """All that is known, with what came since the last time."""
        try:
            while await self._read_some(operations):
                pass
        except (TopicNotFound, OffsetOutOfRange):  # There is none, or it was made anew.
            self._offset = 0
            self._runs.clear()
        return [self._runs[name] for name in sorted(self._runs)]

    async def _read_some(self, operations: LocalOperations) -> bool:
        offset = self._offset
        work = operations.read(PIPELINES_TOPIC, 0, offset, None, None, READ_MESSAGES)
        found = await self._broker.run(work)
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
