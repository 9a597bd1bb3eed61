"""Stand-ins for a broker in a rehearsal: they record calls and have no effect.

SettlementRecorder   records ack, nack, reject and extend of one message
CapturedBroker       records what a function publishes with a client of its own; refuses other calls
captured()           makes ``penstock.connect`` return such a client
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import UNSET, UnsetType

from penstock.errors import AlreadySettled, InvalidValue
from penstock.model.message import Delivered, Message, Receipt
from penstock.types import Duration
from penstock.workers.message import Outputs
from penstock.workers.outcome import DONE, Failed, Outcome, Rejected


class SettlementRecorder:
    """Records how a function settles its messages, without any effect."""

    def __init__(self) -> None:
        self.outcome: Outcome | None = None  # None: the function did not settle the message itself.
        self.outputs: list[tuple[str, Message]] = []

    def ack(self, message: Any, *, publish: Outputs = ()) -> None:
        """Note that the message was acked."""
        self._answer(message, DONE)
        self.outputs += publish

    def nack(self, message: Any, *, error: BaseException | str | None = None, **_: Any) -> None:
        """Note that the message was nacked."""
        given = error if isinstance(error, BaseException) else RuntimeError(error or "nacked")
        self._answer(message, Failed(given))

    def reject(self, message: Any, reason: str) -> None:
        """Note that the message was rejected."""
        self._answer(message, Rejected(reason))

    def extend(self, message: Any, duration: Duration) -> None: ...

    def _answer(self, message: Delivered, outcome: Outcome) -> None:
        if message.settled:
            raise AlreadySettled(topic=message.topic, partition=message.partition, offset=message.offset)
        message.mark_settled()
        self.outcome = outcome


class AsyncSettlementRecorder:
    """The asyncio form of the class above."""

    def __init__(self, answers: SettlementRecorder) -> None:
        self._answers = answers

    def __getattr__(self, name: str) -> Callable[..., Awaitable[None]]:
        async def answer(*arguments: Any, **options: Any) -> None:
            getattr(self._answers, name)(*arguments, **options)

        return answer


class PublishRecorder:
    """The messages that clients of the function have published."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Message]] = []

    def add(self, topic: str, message: Message) -> Receipt:
        self.messages.append((topic, message))
        return Receipt(topic, 0, None, 0)


class CapturedBroker:
    """Replaces a client: records published messages and refuses other calls."""

    def __init__(self, sent: PublishRecorder) -> None:
        self._sent = sent

    def publish(self, topic: str, value: bytes | UnsetType | None = UNSET, **options: Any) -> Receipt:
        kept = {name: options[name] for name in ("key", "headers", "json", "text") if name in options}
        return self._sent.add(topic, Message(value, **kept))

    def publish_batch(self, topic: str, messages: Iterable[Message | bytes], **_: Any) -> list[Receipt]:
        return [
            self._sent.add(topic, each if isinstance(each, Message) else Message(each)) for each in messages
        ]

    def close(self, *_: Any) -> None:
        """There is nothing to close."""

    def __enter__(self) -> "CapturedBroker":
        return self

    def __exit__(self, *_: object) -> None: ...

    def __getattr__(self, name: str) -> Any:
        why = "a rehearsal only records published messages; it does not use the real broker"
        raise InvalidValue(name="call", value=name, why=why)


class AsyncCapturedBroker:
    """The asyncio form of the class above."""

    def __init__(self, sent: PublishRecorder) -> None:
        self._broker = CapturedBroker(sent)

    async def start(self) -> "AsyncCapturedBroker":
        """There is nothing to start."""
        return self

    async def __aenter__(self) -> "AsyncCapturedBroker":
        return self

    async def __aexit__(self, *_: object) -> None: ...

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._broker, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            return method(*arguments, **options)

        return call


@contextmanager
def captured(sent: PublishRecorder) -> Iterator[None]:
    """Within the block, ``connect`` returns a broker that only records.

    Restored afterwards, because the worker runs other tasks, which need real connections.
    """
    import penstock.aio  # Only now: importing the package loads the broker, which a client does not need.

    modules: list[Any] = [penstock, penstock.aio]
    before = [module.connect for module in modules]
    plain, asynchronous = modules
    plain.connect = lambda *_, **__: CapturedBroker(sent)
    asynchronous.connect = lambda *_, **__: AsyncCapturedBroker(sent)
    try:
        yield
    finally:
        for module, connect in zip(modules, before, strict=True):
            module.connect = connect
