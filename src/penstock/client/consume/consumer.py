"""One consumer: the operations of ``api/operations.py``, over a connection."""

from typing import Any

from penstock.client.consume.receiver import Receiver
from penstock.client.consume.settling import RemoteSettler
from penstock.client.consume.spanning import SpanningReceiver
from penstock.client.work import work
from penstock.model.message import LeaseRun, Message
from penstock.types import Duration


class RemoteConsumer:
    """What the facade's consumer works with."""

    def __init__(self, receiver: Receiver | SpanningReceiver) -> None:
        self._receiver = receiver
        self._answers = receiver if isinstance(receiver, SpanningReceiver) else RemoteSettler(receiver)

    @property
    def settler(self) -> Any:
        """What received messages answer to."""
        return self._receiver.settler

    @settler.setter
    def settler(self, settler: Any) -> None:
        self._receiver.settler = settler

    @property
    def identity(self) -> str:
        """The consumer's name in traces and group descriptions."""
        return self._receiver.identity

    @property
    def in_flight(self) -> int:
        """Messages the consumer holds and has not answered."""
        return self._receiver.in_flight

    @property
    def assignment(self) -> list[int]:
        """Stream groups: the partitions the consumer works on."""
        return self._receiver.assignment

    @property
    def closed(self) -> bool:
        """True if there is nothing left to close."""
        return self._receiver.closed

    @work
    async def receive(self, max_messages: Any, wait_ms: int) -> list[Any]:
        """Up to ``max_messages``, as soon as there is one."""
        return await self._receiver.receive(max_messages, wait_ms)

    @work
    async def ack(self, messages: list[Any], outputs: list[tuple[str, Message]]) -> None:
        """Settle, or commit up to and including these."""
        await self._answers.ack(messages, outputs)

    @work
    async def nack(self, message: Any, delay: Duration | None, error: BaseException | str | None) -> None:
        await self._answers.nack(message, delay, error)

    @work
    async def reject(self, message: Any, reason: Any) -> None:
        await self._answers.reject(message, reason)

    @work
    async def extend(self, message: Any, duration: Duration) -> None:
        """Keep it for this long from now."""
        await self._answers.extend(message, duration)

    @work
    async def commit(self) -> None:
        """Everything received so far is done."""
        await self._answers.commit()

    @work
    async def answered(self, runs: list[LeaseRun]) -> None:
        """A transaction has settled these: they are not held any more."""
        self._answers.answered(runs)

    @work
    async def close(self) -> None:
        """Give back what was not answered."""
        await self._receiver.close()
