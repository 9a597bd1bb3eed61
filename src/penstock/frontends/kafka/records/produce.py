"""Writing records: Produce.

A batch is appended as it is, with the times it has, or with that of the log if the topic wants it
(LogAppendTime).  The broker compares its checksum, looks whether its records can be read, and checks its
numbers (producer, epoch, sequence).  Requests of one connection begin in their order and do not wait for each
other's sync, so a producer with several in flight pays for one sync.

    acks 0       not answered; a refusal closes the connection, which is the only way to report it
    acks 1, -1   answered when it is as durable as the topic promises: with one broker, both are the same
"""

from typing import Final

from penstock.api.work import Work
from penstock.broker.frontend import Appended
from penstock.errors import (
    InvalidBatch,
    InvalidRecords,
    InvalidValue,
    KeyMissing,
    Overloaded,
    PenstockError,
    SchemaMismatch,
    SequenceReused,
    TransactionNotOpen,
)
from penstock.frontends.kafka.call import LATER, Api, KafkaCall, Later
from penstock.frontends.kafka.errors import code_of, words_of
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.parts import NO_LEADER
from penstock.wire.kafka.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from penstock.wire.kafka.producing import IDS_SINCE
from penstock.wire.records import CONTROL, HEADER_BYTES, MAGIC, magic_of, max_timestamp_of, read_header

ABORTABLE_SINCE: Final = 11  # Its client knows that an error may be helped by aborting its transaction.
ENLISTS_SINCE: Final = 12  # Partitions belong to a transaction with their first batch.
NO_ANSWER: Final = 0
AHEAD_MS_MAX: Final = (
    3600_000  # A clock that is wrong by more than Kafka allows would keep retention waiting.
)

Answers = list[Appended | PenstockError]
Batches = list[tuple[int, bytes]]  # Each for a partition.


class Produce:
    """One produce request in progress."""

    __slots__ = ("_call", "_open", "_size", "abortable", "acks", "failed", "topics")

    def __init__(self, call: KafkaCall[ProduceRequest], size: int) -> None:
        self.acks = call.request.acks
        self.abortable = call.request.transactional_id is not None and call.version >= ABORTABLE_SINCE
        self.failed = False
        self.topics: list[TopicProduceResponse] = []
        self._call = call
        self._size = size
        self._open = 1  # Topics that are not written yet; and one, so that it does not end in its beginning.

    def begin(self) -> None:
        """Hand every topic's batches to the broker."""
        call = self._call
        now_ms = call.shared.clock.wall_ms()
        for asked in call.request.topic_data:
            self._open += 1
            TopicWrite(self, asked).begin(call, now_ms)
        self.one_less()

    def one_less(self) -> None:
        """A topic was written or refused."""
        self._open -= 1
        if self._open:
            return
        call = self._call
        call.shared.publish_bytes -= self._size
        if self.acks != NO_ANSWER:
            call.answer(ProduceResponse(self.topics))
            return
        call.answer(None)
        if self.failed:
            call.session.end()


class TopicWrite:
    """The batches of a produce request for one topic."""

    __slots__ = ("_answers", "_asked", "_produce", "_sound")

    def __init__(self, produce: Produce, asked: TopicProduceData) -> None:
        self._produce = produce
        self._asked = asked
        self._sound: Batches = []
        self._answers: list[PartitionProduceResponse] = []
        produce.topics.append(TopicProduceResponse(asked.name, asked.topic_id, self._answers))

    def begin(self, call: KafkaCall[ProduceRequest], now_ms: int) -> None:
        """Check the batches, and hand over those that may be valid."""
        asked = self._asked
        name: str | None = asked.name if call.version < IDS_SINCE else call.session.names.get(asked.topic_id)
        for partition in asked.partition_data:
            code = Code.UNKNOWN_TOPIC_ID if name is None else _complaint(partition, now_ms)
            if code == Code.INVALID_TIMESTAMP and _gives_its_own_time(call, name or ""):
                code = Code.NONE
            if code:
                self._refuse(partition.index, code, None)
            else:
                self._sound.append((partition.index, bytes(partition.records or b"")))
        if name is None or not self._sound:
            self._produce.one_less()
            return
        try:
            work = self._work(call, name)
        except PenstockError as error:
            self.written(None, error)
        else:
            call.start(work, self.written)

    def _work(self, call: KafkaCall[ProduceRequest], name: str) -> Work[Answers]:
        wait, known_as = self._produce.acks != NO_ANSWER, call.request.transactional_id
        if known_as is not None:
            adds = call.version >= ENLISTS_SINCE
            return call.operations.append_in_transaction(name, self._sound, wait, known_as, adds)
        return call.operations.append_records(name, self._sound, wait)

    def written(self, answers: Answers | None, error: BaseException | None) -> None:
        """The broker has written the batches, or refused them."""
        for index, (number, _) in enumerate(self._sound):
            one = error if answers is None else answers[index]
            if isinstance(one, Appended):
                self._answers.append(
                    PartitionProduceResponse(
                        index=number,
                        base_offset=one.offset or 0,
                        log_append_time_ms=one.append_ms,
                        log_start_offset=one.log_start,
                        current_leader=NO_LEADER,
                    )
                )
            else:
                problem = one or PenstockError(reason="no answer")
                code = self._code(problem, self._sound[index][1])
                self._refuse(number, code, words_of(problem), _record_errors(problem))
        self._produce.one_less()

    def _code(self, problem: BaseException, batch: bytes) -> int:
        if isinstance(problem, InvalidValue) or (isinstance(problem, InvalidBatch) and not _is_sound(batch)):
            return Code.INVALID_RECORD
        if self._produce.abortable and isinstance(problem, SequenceReused | TransactionNotOpen):
            return Code.TRANSACTION_ABORTABLE
        return code_of(problem)

    def _refuse(
        self,
        number: int,
        code: int,
        words: str | None,
        errors: list[BatchIndexAndErrorMessage] | None = None,
    ) -> None:
        self._produce.failed = True
        self._answers.append(
            PartitionProduceResponse(
                index=number,
                error_code=code,
                base_offset=-1,
                record_errors=errors or [],
                error_message=words,
            )
        )


def _record_errors(problem: BaseException) -> list[BatchIndexAndErrorMessage]:
    """The records that are invalid, if only some are."""
    if isinstance(problem, SchemaMismatch):
        return [BatchIndexAndErrorMessage(index, why) for index, why in problem.reasons.items()]
    if not isinstance(problem, InvalidRecords | KeyMissing):
        return []
    words = words_of(problem)
    return [BatchIndexAndErrorMessage(index, words) for index in problem.records]


def _is_sound(batch: bytes) -> bool:
    """Whether only the checksum can be wrong: the only error after which clients send a batch again."""
    try:
        header = read_header(batch)
    except InvalidBatch:
        return False
    return header.size <= len(batch) and not header.attributes & CONTROL


def produce(call: KafkaCall[ProduceRequest]) -> Later | ProduceResponse:
    """Append batches, each to a partition."""
    if call.request.acks not in (NO_ANSWER, 1, -1):
        return refused(call.request, Code.INVALID_REQUIRED_ACKS)
    size = 0
    for topic in call.request.topic_data:
        for partition in topic.partition_data:
            size += len(partition.records or b"")
    shared = call.shared
    limit = shared.limits.publish_bytes_max
    if shared.publish_bytes and shared.publish_bytes + size > limit:
        raise Overloaded(what="bytes of publishes", limit=limit)
    shared.publish_bytes += size
    Produce(call, size).begin()
    return LATER


def refused(request: ProduceRequest, code: int) -> ProduceResponse:
    """The response that refuses every partition."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=partition.index, error_code=code, base_offset=-1)
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _complaint(partition: PartitionProduceData, now_ms: int) -> int:
    """The error of records that a first look finds."""
    records = partition.records
    if records is None or len(records) < HEADER_BYTES:
        return Code.INVALID_RECORD
    if magic_of(records) != MAGIC:
        return Code.INVALID_RECORD
    return Code.INVALID_TIMESTAMP if max_timestamp_of(records) > now_ms + AHEAD_MS_MAX else Code.NONE


def _gives_its_own_time(call: KafkaCall[ProduceRequest], name: str) -> bool:
    """Whether the timestamps of records do not matter, because the topic uses the time of the append."""
    try:
        return call.operations.layout(name).settings.append_time
    except PenstockError:
        return False


APIS = (Api(ProduceRequest, ProduceResponse, produce, refusal=refused, pipelined=True),)
