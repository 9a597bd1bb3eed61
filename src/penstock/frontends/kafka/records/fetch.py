"""Reading records: Fetch.

    look ──> enough, or an error, or the time is over ──> answer
      ^  └─> wait for something to happen on the topics
      └─────────────────┘

All of it happens on the loop, and nothing comes between a look that finds nothing and the beginning of the
wait: no arrival is missed.  Records are bytes of the log, on their way to the socket as they are.  A
request that comes behind ends the wait (``hurry``), because its answer would have to wait, too.

The answer has ``max_bytes`` of records at most, and of a partition ``partition_max_bytes``.  Only the first
batch of the first partition that has one may be larger, or it could never be read (KIP-74).

There are no fetch sessions: a client that asks for one gets session 0, and sends full requests.
"""

from typing import Any

from penstock.broker.frontend import RawFetched
from penstock.errors import OffsetOutOfRange, PenstockError
from penstock.frontends.kafka.call import LATER, Api, KafkaCall, Later
from penstock.frontends.kafka.errors import code_of
from penstock.model.owners import Owners
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

FETCH_BYTES_MAX = 55 * 1024 * 1024  # Of records in one answer, whatever a client asks for; as Kafka's.
READ_COMMITTED = 1
IDS_SINCE = 13  # From this version on a topic is named by its id.


def epoch_code(owners: Owners, topic: str, partition: int, known: int) -> Code:
    """Whether the leader epoch that a client knows is the current one; -1: it knows none."""
    epoch = owners.owner_of(topic, partition)[1] if known >= 0 else known
    if known == epoch:
        return Code.NONE
    return Code.UNKNOWN_LEADER_EPOCH if known > epoch else Code.FENCED_LEADER_EPOCH


class Fetch:
    def __init__(self, call: KafkaCall[FetchRequest]) -> None:
        self._call = call
        self._request = call.request
        self._deadline_ms = call.shared.clock.steady_ms() + max(call.request.max_wait_ms, 0)
        self._waits: list[Any] = []
        self._left = 0  # Bytes that the answer has room for.
        self._begun = False  # There are records in it ...
        self._full = False  # ... and more that do not fit.
        self._hurried = False
        self._answered = False

    def look(self) -> None:
        """Respond if there are enough records, or wait for more."""
        if self._answered:
            return
        self._left = min(self._request.max_bytes, FETCH_BYTES_MAX)
        self._begun = self._full = False
        topics = [self._topic(topic) for topic in self._request.topics]
        if self._hurried or self._is_enough(topics) or not self._wait(topics):
            self._answered = True
            self._call.answer(FetchResponse(responses=topics))

    def hurry(self) -> None:
        """Respond now, with the records there are."""
        self._hurried = True
        if self._waits:
            self._stop_waiting()
            self.look()

    # Looking.

    def _topic(self, asked: FetchTopic) -> FetchableTopicResponse:
        name: str | None = asked.topic
        if self._call.version >= IDS_SINCE:
            name = self._call.session.names.get(asked.topic_id)
        parts = [self._partition(name, partition) for partition in asked.partitions]
        return FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=parts)

    def _partition(self, name: str | None, asked: FetchPartition) -> PartitionData:
        number = asked.partition
        if name is None:
            return _failed(number, Code.UNKNOWN_TOPIC_ID)
        code = epoch_code(self._call.owners, name, number, asked.current_leader_epoch)
        if not code and asked.last_fetched_epoch > self._call.owners.owner_of(name, number)[1]:
            code = Code.OFFSET_OUT_OF_RANGE  # No leader has had that epoch.
        if code:
            return _failed(number, code)
        committed = self._request.isolation_level == READ_COMMITTED
        most = max(min(asked.partition_max_bytes, self._left), 0 if self._begun else 1)
        try:
            fetched = self._call.operations.read_records(name, number, asked.fetch_offset, most, committed)
        except PenstockError as error:
            return _refused(number, error)
        return self._filled(asked, fetched, most, committed)

    def _filled(
        self, asked: FetchPartition, fetched: RawFetched, most: int, committed: bool
    ) -> PartitionData:
        data = PartitionData(
            partition_index=asked.partition,
            high_watermark=fetched.safe,
            last_stable_offset=fetched.end,
            log_start_offset=fetched.start,
            aborted_transactions=None,
            records=b"",
        )
        fits = len(fetched.batches) <= most or not self._begun
        if fetched.batches and fits:
            self._begun = True
            self._left -= len(fetched.batches)
            data.records = fetched.batches
        elif fetched.batches or (most == 0 and asked.fetch_offset < fetched.safe):
            self._full = True  # This partition has its turn in the next answer.
        if committed:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=producer_id, first_offset=first)
                for producer_id, first in fetched.aborted
            ]
        return data

    def _is_enough(self, topics: list[FetchableTopicResponse]) -> bool:
        size = 0
        for topic in topics:
            for partition in topic.partitions:
                if partition.error_code:
                    return True
                size += len(partition.records or b"")
        return self._full or size >= min(self._request.min_bytes, self._request.max_bytes)

    # Waiting.

    def _wait(self, topics: list[FetchableTopicResponse]) -> bool:
        """Start waiting; False if there is no time left, or nothing to wait for."""
        call = self._call
        if call.shared.clock.steady_ms() >= self._deadline_ms:
            return False
        names = {topic.topic or call.session.names.get(topic.topic_id, "") for topic in topics}
        for name in names:
            self._waits.append(call.start(call.operations.arrival(name, self._deadline_ms), self._woken))
        return bool(self._waits)

    def _woken(self, _: Any, error: BaseException | None) -> None:  # noqa: ARG002 - the look finds it, too.
        self._stop_waiting()
        self.look()

    def _stop_waiting(self) -> None:
        waits, self._waits = self._waits, []
        for wait in waits:
            wait.cancel()


def _refused(number: int, error: PenstockError) -> PartitionData:
    start = error.start if isinstance(error, OffsetOutOfRange) else -1
    code = Code.OFFSET_OUT_OF_RANGE if error.code == "VALUE_INVALID" else code_of(error)
    return _failed(number, code, start)


def _failed(number: int, code: int, start: int = -1) -> PartitionData:
    """A failed partition: its records are empty, not null, which librdkafka refuses as malformed."""
    return PartitionData(
        partition_index=number,
        error_code=code,
        high_watermark=-1,
        log_start_offset=start,
        aborted_transactions=None,
        records=b"",
    )


def fetch(call: KafkaCall[FetchRequest]) -> Later | FetchResponse:
    """Batches of many partitions, as soon as there are enough of them."""
    if call.request.session_id:
        return FetchResponse(error_code=Code.FETCH_SESSION_ID_NOT_FOUND)
    one = Fetch(call)
    call.hurry = one.hurry
    one.look()
    return LATER


APIS = (Api(FetchRequest, FetchResponse, fetch),)
