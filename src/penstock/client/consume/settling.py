"""Settles the messages of a remote consumer: ack, nack, reject, extend, commit.

Arguments are checked here, with the same errors as in the broker, and sent as ranges of offsets.  A
settlement whose response was lost is sent again; "already settled" for such a retry means that the first
attempt had arrived.
"""

from typing import Any, Final

from penstock.client.consume.held_leases import wire_runs
from penstock.client.consume.receiver import Receiver
from penstock.config.broker import PARTITIONS_MAX
from penstock.errors import (
    AlreadySettled,
    GroupKindMismatch,
    InvalidValue,
    LeaseLost,
    NotAssigned,
    PenstockError,
)
from penstock.model.failure import describe_error
from penstock.model.message import LeaseRun, Message, check_held, lease_runs, refused, run_of, unanswer
from penstock.model.placing import dedup_bytes, placed
from penstock.operations.codec import wire_message
from penstock.types import Duration, duration_ms, extension_ms
from penstock.wire.native import ACK_AND_PUBLISH, COUNT_MAX, NACK, NO_LEASE, REJECT, encode_ack, encode_commit
from penstock.wire.native_bodies import AckAndPublish, NackBody, RejectBody, WireMessage, encode_body

SETTLED_BEFORE: Final = frozenset({AlreadySettled.code})


class ArrivedBefore:
    """The errors by which a retried nack or reject learns that it had arrived before.

    If the lease that the server kept for this client is gone, the first nack or reject has ended it.  But a
    consumer that had to be opened again has lost all its leases: then the outcome is unknown.
    """

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._lives = receiver.lives

    def __contains__(self, code: object) -> bool:
        return code == AlreadySettled.code or (code == LeaseLost.code and self._lives == self._receiver.lives)


class RemoteSettler:
    """Sends the acks, nacks and commits of one consumer."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._session = receiver.session

    async def ack(self, messages: list[Any], outputs: list[tuple[str, Message]]) -> None:
        """Settle these messages, and publish ``outputs`` atomically with it."""
        self._receiver.check_open()
        if self._receiver.stream and not outputs:
            await self._commit_messages(messages)
            return
        self._check_queue("ack")
        wired = [_output(topic, message) for topic, message in outputs]
        runs = lease_runs(messages, self._receiver.settler)
        try:
            if wired:
                await self._ack_and_publish(runs, wired)
            else:
                await self._ack(runs)
        except (LeaseLost, AlreadySettled):  # Those that were still held are settled.
            if wired:
                unanswer(messages)
                raise
            self.answered(runs)
            raise
        except PenstockError:
            unanswer(messages)
            raise
        except BaseException:  # Cancelled: the request is in flight, and the messages count as settled.
            self.answered(runs)
            raise
        self.answered(runs)

    async def _ack(self, runs: list[LeaseRun]) -> None:
        wired = wire_runs(runs)
        for begin in range(0, len(wired), COUNT_MAX):
            some = wired[begin : begin + COUNT_MAX]
            await self._session.call(
                "ack",
                lambda correlation, some=some: encode_ack(correlation, self._receiver.current(), some),  # type: ignore[misc]
                done=SETTLED_BEFORE,
            )

    async def _ack_and_publish(self, runs: list[LeaseRun], outputs: list[tuple[str, WireMessage]]) -> None:
        wired = wire_runs(runs)
        await self._session.call(
            "ack",
            lambda correlation: encode_body(
                ACK_AND_PUBLISH, correlation, AckAndPublish(self._receiver.current(), wired, outputs)
            ),
            done=SETTLED_BEFORE,
        )

    async def nack(self, message: Any, delay: Duration | None, error: BaseException | str | None) -> None:
        """Deliver the message again later, or make it a dead letter if this was its last attempt."""
        runs = self._held(message, "nack")
        delay_ms = None if delay is None else duration_ms("delay", delay)
        failure = describe_error(error)
        await self._session.call(
            "nack",
            lambda correlation: encode_body(
                NACK,
                correlation,
                NackBody(
                    self._receiver.current(), wire_runs(runs), delay_ms, failure.error_class, failure.message,
                    failure.fingerprint,
                ),
            ),
            done=ArrivedBefore(self._receiver),
        )  # fmt: skip
        message.mark_settled()
        self.answered(runs)

    async def reject(self, message: Any, reason: Any) -> None:
        """Make the message a dead letter now, regardless of its remaining attempts."""
        self._check_queue("reject")
        if not isinstance(reason, str):
            raise InvalidValue(name="reason", value=reason, why="say in text why the message is no good")
        text = describe_error(reason).message
        runs = self._held(message, "reject")
        await self._session.call(
            "reject",
            lambda correlation: encode_body(
                REJECT, correlation, RejectBody(self._receiver.current(), wire_runs(runs), text)
            ),
            done=ArrivedBefore(self._receiver),
        )
        message.mark_settled()
        self.answered(runs)

    async def extend(self, message: Any, duration: Duration) -> None:
        """Give the message's lease a new deadline, counted from now."""
        runs = self._held(message, "extend")
        kept_ms = extension_ms(duration)
        lease = (runs[0].partition, runs[0].lease)
        if await self._receiver.extend([lease], kept_ms):
            self._receiver.held_leases.lose(lease)
            raise LeaseLost(topic=message.topic, partition=message.partition, offset=message.offset)

    async def commit(self) -> None:
        """Stream groups: everything received so far is done."""
        self._receiver.check_open()
        if not self._receiver.stream:
            raise GroupKindMismatch(operation="commit", kind="queue", group=self._receiver.group)
        while True:
            offsets = dict(self._receiver.read)
            try:
                return await self._commit(offsets)
            except NotAssigned:
                # After a rebalance: get the new assignment, and leave out lost partitions.
                await self._receiver.heartbeat_stream()
                if self._receiver.read.keys() >= offsets.keys():
                    raise

    async def _commit_messages(self, messages: list[Any]) -> None:
        offsets: dict[int, int] = {}
        for message in messages:
            check_held(message, self._receiver.settler, "messages")
            offsets[message.partition] = max(offsets.get(message.partition, 0), message.offset + 1)
        await self._commit(offsets)
        for message in messages:
            message.mark_settled()

    async def _commit(self, offsets: dict[int, int]) -> None:
        await self._session.call(
            "commit",
            lambda correlation: encode_commit(correlation, self._receiver.current(), offsets.items()),
        )

    def _check_queue(self, operation: str) -> None:
        self._receiver.check_open()
        if self._receiver.stream:
            raise GroupKindMismatch(operation=operation, kind="stream", group=self._receiver.group)

    def _held(self, message: Any, operation: str) -> list[LeaseRun]:
        """The message as a run, if this consumer can settle it."""
        self._check_queue(operation)
        check_held(message, self._receiver.settler, "message")
        if message.settled or message.delivery.lease == NO_LEASE:
            raise refused(message)
        return [run_of(message)]

    def answered(self, runs: list[LeaseRun]) -> None:
        """Forget settled messages, which makes room for others."""
        self._receiver.held_leases.answer(runs)
        self._receiver.ask_for_more()


def _output(topic: str, message: Message) -> tuple[str, WireMessage]:
    """A message to publish with an ack: of the right types; the rest is for the server to say."""
    placed(topic, message, PARTITIONS_MAX)  # Raises, if it cannot be; how many there are, the server knows.
    if message.dedup_id is not None:
        dedup_bytes(message.dedup_id)
    return topic, wire_message(message)
