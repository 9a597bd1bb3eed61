"""The operations of a node, for itself and its peers, that wait for old messages that are not cached.

A read that needs a segment that is not on this node's disk raises ``NotCached`` before it has any effect
(``log/archive.py``).  These operations only read, or may be repeated: each is restarted when the segment
has been fetched, for up to ``READ_MS_MAX``.  Consumers, compaction and redrives have their own waits.
"""

from collections.abc import Callable
from typing import Any, Final

from penstock.broker.core import Core
from penstock.broker.operations import LocalOperations
from penstock.broker.steps import Steps, fetched
from penstock.errors import NotCached, PenstockError
from penstock.model.message import Receipt

READ_MS_MAX: Final = 20_000  # Some hundred megabytes over a slow link; then the client gets the error.


class CachedOperations(LocalOperations):
    """``LocalOperations`` of a node of a cluster."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.fetch = self._fetch  # It is set by name in the base class.

    def _again(self, operation: Callable[..., Steps[Any]], *arguments: Any, **named: Any) -> Steps[Any]:
        state = self._core.state
        until_ms = state.clock.steady_ms() + READ_MS_MAX
        while True:
            try:
                return (yield from operation(*arguments, **named))
            except NotCached as missing:
                now_ms = state.clock.steady_ms()
                if now_ms >= until_ms:
                    raise
                yield from fetched(state.files, now_ms, missing)

    def _fetch(self, *arguments: Any, **named: Any) -> Steps[Any]:
        return self._again(self._core.fetching.fetch, *arguments, **named)

    def append_batches(
        self, topic: str, version: int, batches: list[tuple[int, bytes]], wait: bool
    ) -> Steps[list[Receipt | PenstockError]]:
        """A producer's retry is compared with the original batch, which may have to be fetched."""
        state = self._core.state
        until_ms = state.clock.steady_ms() + READ_MS_MAX
        answers = yield from super().append_batches(topic, version, batches, wait)
        for at, answer in enumerate(answers):
            while isinstance(answer, NotCached) and state.clock.steady_ms() < until_ms:
                yield from fetched(state.files, state.clock.steady_ms(), answer)
                [answer] = yield from super().append_batches(topic, version, [batches[at]], wait)
                answers[at] = answer
        return answers

    def read(self, *arguments: Any, **named: Any) -> Steps[Any]:
        return self._again(super().read, *arguments, **named)

    def peek(self, *arguments: Any, **named: Any) -> Steps[Any]:
        return self._again(super().peek, *arguments, **named)

    def trace(self, *arguments: Any, **named: Any) -> Steps[Any]:
        return self._again(super().trace, *arguments, **named)

    def offsets(self, *arguments: Any, **named: Any) -> Steps[Any]:
        return self._again(super().offsets, *arguments, **named)

    def seek(self, *arguments: Any, **named: Any) -> Steps[Any]:
        return self._again(super().seek, *arguments, **named)

    def create_group(self, *arguments: Any, **named: Any) -> Steps[Any]:
        return self._again(super().create_group, *arguments, **named)

    def consumer(self, *arguments: Any, **named: Any) -> Steps[Any]:
        return self._again(super().consumer, *arguments, **named)

    def batch_consumer(self, *arguments: Any, **named: Any) -> Steps[Any]:
        return self._again(super().batch_consumer, *arguments, **named)

    def dead_letters(self, *arguments: Any, **named: Any) -> Steps[Any]:
        return self._again(super().dead_letters, *arguments, **named)

    def dead_letter(self, *arguments: Any, **named: Any) -> Steps[Any]:
        return self._again(super().dead_letter, *arguments, **named)

    def dead_letter_errors(self, *arguments: Any, **named: Any) -> Steps[Any]:
        return self._again(super().dead_letter_errors, *arguments, **named)
