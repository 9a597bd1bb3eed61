"""What all consumers of a broker share, whether they receive messages or record batches."""

from collections.abc import Callable
from typing import Any

from penstock.broker.core import Core
from penstock.broker.state import GroupConsumer
from penstock.broker.steps import Steps
from penstock.model.message import Message


class BrokerConsumer:
    """One consumer, of a queue group or of a stream group."""

    def __init__(self, core: Core, state: GroupConsumer) -> None:
        self._core = core
        self._state = state
        self.kind = state.group.settings.kind
        # Asked before an ack publishes something; a front end whose client may not do everything has its own.
        self.permit: Callable[[list[tuple[str, Message]]], None] = _anything
        self.create_missing: Callable[[list[tuple[str, Message]]], Steps[None]] = core.missing.create_all
        stream = self.kind == "stream"
        self._receive = core.streams.receive if stream else core.queues.receive
        if stream:
            core.streams.join(state)

    @property
    def identity(self) -> str:
        """The consumer's name in traces and group descriptions."""
        return self._state.identity

    @property
    def in_flight(self) -> int:
        """Messages the consumer holds and has not answered."""
        return self._state.in_flight

    @property
    def assignment(self) -> list[int]:
        """Stream groups: the partitions the consumer works on."""
        return sorted(self._state.positions)

    @property
    def closed(self) -> bool:
        """True once it, its group, its topic or the broker is gone: there is nothing left to close."""
        return self._state.closed or self._core.state.closed

    def receive(self, max_messages: Any, wait_ms: int) -> Steps[list[Any]]:
        """Up to ``max_messages``, as soon as there is one; none after ``wait_ms``."""
        return self._receive(self._state, max_messages, wait_ms)

    def publishing(self, outputs: list[tuple[str, Message]], ack: Steps[None]) -> Steps[None]:
        """Check that an ack may publish these outputs, and create their topics if they are missing."""
        self.permit(outputs)
        return self._ack_and_publish(outputs, ack)

    def _ack_and_publish(self, outputs: list[tuple[str, Message]], ack: Steps[None]) -> Steps[None]:
        yield from self.create_missing(outputs)
        yield from ack

    # These wait for nothing, but are steps: before a driver answers, it finishes the jobs that they cause.

    def close(self) -> Steps[None]:
        """Give back what was not answered."""
        yield from ()
        self._core.close_consumer(self._state)

    def disconnect(self) -> Steps[None]:
        """Its connection was lost: give back what was not answered, and count the attempt."""
        yield from ()
        self._core.close_consumer(self._state, disconnected=True)


def _anything(_: list[tuple[str, Message]]) -> None:
    """No check: the program itself may publish to all topics."""
