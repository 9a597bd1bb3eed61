"""The APIs of transactions, request by request, in every version."""

import asyncio
from collections.abc import Awaitable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.frontends.kafka.conftest import Server, serving
from tests.frontends.kafka.raw import Raw, versions
from tests.transactional import batch

from penstock.broker.frontend import Layout
from penstock.config.broker import TopicSettings
from penstock.frontends.kafka.groups.offsets import _topic
from penstock.groups.commits import Commit
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages import cluster, produce, transactions
from penstock.wire.kafka.messages.groups import offsets
from penstock.wire.kafka.messages.parts import NamePartitions

FENCED = {False: Code.INVALID_PRODUCER_EPOCH, True: Code.PRODUCER_FENCED}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Server]:
    yield from serving()


@pytest.fixture
def topic(kafka: Server, request: pytest.FixtureRequest) -> str:
    """One for each test, and a name for its producer and its group, too."""
    name = f"t{abs(hash(request.node.nodeid))}"
    kafka.run(kafka.broker.create_topic(name, partitions=2))
    return name


def init(raw: Raw, name: str | None, version: int = 5, **fields: int) -> produce.InitProducerIdResponse:
    asked = produce.InitProducerIdRequest(
        transactional_id=name, **{"transaction_timeout_ms": 60_000, **fields}
    )
    return raw.ask(asked, produce.InitProducerIdResponse, version)


def add(raw: Raw, name: str, who: tuple[int, int], numbers: list[int], version: int = 3) -> list[int]:
    asked = transactions.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=who[0],
        v3_and_below_producer_epoch=who[1],
        v3_and_below_topics=[NamePartitions(name=name, partitions=numbers)],
    )
    [answer] = raw.ask(asked, transactions.AddPartitionsToTxnResponse, version).results_by_topic_v3_and_below
    assert answer.name == name
    assert [result.partition_index for result in answer.results_by_partition] == numbers
    return [result.partition_error_code for result in answer.results_by_partition]


def add_group(raw: Raw, name: str, who: tuple[int, int], version: int = 4) -> int:
    asked = transactions.AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=who[0], producer_epoch=who[1], group_id=name
    )
    return raw.ask(asked, transactions.AddOffsetsToTxnResponse, version).error_code


def commit(
    raw: Raw, name: str, who: tuple[int, int], places: dict[int, int], version: int = 4, note: str = "n"
) -> list[int]:
    partitions = [
        transactions.TxnOffsetCommitRequestPartition(
            partition_index=number, committed_offset=offset, committed_metadata=note
        )
        for number, offset in places.items()
    ]
    asked = transactions.TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=name,
        producer_id=who[0],
        producer_epoch=who[1],
        topics=[transactions.TxnOffsetCommitRequestTopic(name=name, partitions=partitions)],
    )
    [answer] = raw.ask(asked, transactions.TxnOffsetCommitResponse, version).topics
    return [partition.error_code for partition in answer.partitions]


def end(raw: Raw, name: str, who: tuple[int, int], version: int = 4, committed: bool = True) -> int:
    asked = transactions.EndTxnRequest(
        transactional_id=name, producer_id=who[0], producer_epoch=who[1], committed=committed
    )
    return raw.ask(asked, transactions.EndTxnResponse, version).error_code


def request_of(name: str, data: bytes) -> produce.ProduceRequest:
    partition = produce.PartitionProduceData(index=0, records=memoryview(data))
    topic = produce.TopicProduceData(name=name, partition_data=[partition])
    return produce.ProduceRequest(transactional_id=name, acks=-1, timeout_ms=1000, topic_data=[topic])


def append(raw: Raw, name: str, data: bytes, version: int = 9) -> int:
    [answer] = raw.ask(request_of(name, data), produce.ProduceResponse, version).responses
    return answer.partition_responses[0].error_code


def who(raw: Raw, name: str) -> tuple[int, int]:
    answer = init(raw, name)
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("version", versions(produce.InitProducerIdRequest))
def test_a_producer_gets_an_id_and_an_epoch(raw: Raw, topic: str, version: int) -> None:
    nameless, other = init(raw, None, version), init(raw, None, version)
    first, second = init(raw, topic, version), init(raw, topic, version)

    assert nameless.producer_id != other.producer_id
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, first.producer_epoch + 1)


@pytest.mark.parametrize("version", versions(transactions.EndTxnRequest))
def test_a_whole_transaction(kafka: Server, raw: Raw, topic: str, version: int) -> None:
    known = who(raw, topic)
    data = batch([b"a"], *known, 0)

    assert add(raw, topic, known, [0, 1], min(version, 3)) == [0, 0]
    assert append(raw, topic, data) == 0
    assert add_group(raw, topic, known, min(version, 4)) == 0
    assert commit(raw, topic, known, {0: 1, 1: 0}, version) == [0, 0]
    assert kafka.run(kafka.broker.read(topic, partition=0)) == []
    assert end(raw, topic, known, version) == 0

    assert [it.value for it in kafka.run(kafka.broker.read(topic, partition=0))] == [b"a"]
    assert kafka.run(kafka.broker.describe_group(topic, topic)).lag == 0, "a marker is no message"


@pytest.mark.parametrize("version", versions(transactions.EndTxnRequest))
def test_the_fenced_are_told_by_a_number_that_they_know(raw: Raw, topic: str, version: int) -> None:
    known = who(raw, topic)
    add(raw, topic, known, [0])
    who(raw, topic)
    newer = FENCED[version >= 2]

    assert end(raw, topic, known, version) == newer
    assert add_group(raw, topic, known, min(version, 4)) == newer
    assert add(raw, topic, known, [0], min(version, 3)) == [newer]
    assert commit(raw, topic, known, {0: 1}, version) == [Code.INVALID_PRODUCER_EPOCH]
    assert append(raw, topic, batch([b"a"], *known, 0)) == Code.INVALID_PRODUCER_EPOCH
    last = init(raw, topic, max(min(version, 5), 3), producer_id=known[0], producer_epoch=known[1])
    assert last.error_code == FENCED[version >= 4]


@pytest.mark.parametrize("version", versions(transactions.AddPartitionsToTxnRequest))
def test_a_partition_that_is_not_there_keeps_the_others_out(raw: Raw, topic: str, version: int) -> None:
    known = who(raw, topic)

    answers = add(raw, topic, known, [0, 7], version)

    assert answers == [Code.OPERATION_NOT_ATTEMPTED, Code.UNKNOWN_TOPIC_OR_PARTITION]
    assert append(raw, topic, batch([b"a"], *known, 0)) == Code.INVALID_TXN_STATE


def test_each_mistake_has_its_number(raw: Raw, topic: str) -> None:
    known = who(raw, topic)
    stranger = (known[0] + 1000, 0)

    assert end(raw, topic, known) == Code.INVALID_TXN_STATE
    assert end(raw, topic, stranger) == Code.INVALID_PRODUCER_ID_MAPPING
    assert end(raw, "nobody", known) == Code.INVALID_PRODUCER_ID_MAPPING
    assert append(raw, topic, batch([b"a"], *stranger, 0)) == Code.INVALID_PRODUCER_ID_MAPPING
    assert commit(raw, topic, known, {0: 1}, 3) == [Code.INVALID_TXN_STATE]
    assert commit(raw, topic, known, {0: 1}, 4) == [Code.TRANSACTION_ABORTABLE]
    assert add_group(raw, topic, known) == 0
    assert commit(raw, topic, known, {0: 1}, note="x" * 5000) == [Code.OFFSET_METADATA_TOO_LARGE]
    assert init(raw, "").error_code == Code.INVALID_REQUEST
    for timeout_ms in (0, -1, 900_001):
        answer = init(raw, topic, transaction_timeout_ms=timeout_ms)
        assert answer.error_code == Code.INVALID_TRANSACTION_TIMEOUT


def test_a_commit_by_who_is_not_in_the_group_is_refused(raw: Raw, topic: str) -> None:
    known = who(raw, topic)
    add_group(raw, topic, known)
    partition = transactions.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    asked = transactions.TxnOffsetCommitRequest(
        transactional_id=topic,
        group_id=topic,
        producer_id=known[0],
        producer_epoch=known[1],
        generation_id=3,
        member_id="gone",
        topics=[transactions.TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )

    [answer] = raw.ask(asked, transactions.TxnOffsetCommitResponse, 4).topics

    assert answer.partitions[0].error_code == Code.ILLEGAL_GENERATION


@pytest.mark.parametrize("committed", [True, False])
def test_who_goes_by_places_that_may_yet_move_is_told_to_wait(raw: Raw, topic: str, committed: bool) -> None:
    known = who(raw, topic)
    add_group(raw, topic, known)
    commit(raw, topic, known, {0: 7})

    assert place(raw, topic, stable=True)[1] == Code.UNSTABLE_OFFSET_COMMIT
    assert place(raw, topic, stable=False) == (-1, 0)
    end(raw, topic, known, committed=committed)
    assert place(raw, topic, stable=True) == (7 if committed else -1, 0)


def place(raw: Raw, name: str, *, stable: bool) -> tuple[int, int]:
    topics = [offsets.OffsetFetchRequestTopic(name=name, partition_indexes=[0])]
    asked = offsets.OffsetFetchRequest(group_id=name, topics=topics, require_stable=stable)
    [answer] = raw.ask(asked, offsets.OffsetFetchResponse, 7).topics
    return answer.partitions[0].committed_offset, answer.partitions[0].error_code


# Version 2 (KIP-890): partitions and groups belong to a transaction from their first use on, and it ends the
# epoch of its producer.


def end_epoch(
    raw: Raw, name: str, who: tuple[int, int], *, committed: bool = True
) -> tuple[int, tuple[int, int]]:
    """The error, and the producer's id and epoch from then on."""
    asked = transactions.EndTxnRequest(
        transactional_id=name, producer_id=who[0], producer_epoch=who[1], committed=committed
    )
    answer = raw.ask(asked, transactions.EndTxnResponse, 5)
    return answer.error_code, (answer.producer_id, answer.producer_epoch)


def test_transactions_of_version_2_are_a_feature_that_the_cluster_has_agreed_on(kafka: Server) -> None:
    with Raw(kafka) as raw:
        for version in versions(cluster.ApiVersionsRequest):
            named = cluster.ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
            told = raw.ask(named, cluster.ApiVersionsResponse, version)

            agreed = [(it.name, it.min_version_level, it.max_version_level) for it in told.finalized_features]
            assert agreed == ([("transaction.version", 2, 2)] if version >= 3 else [])
            assert told.finalized_features_epoch == (0 if version >= 3 else -1)
            supported = [(it.name, it.min_version, it.max_version) for it in told.supported_features]
            assert supported == ([("transaction.version", 0, 2)] if version >= 4 else [])


def test_a_whole_transaction_of_version_2(kafka: Server, raw: Raw, topic: str) -> None:
    known = who(raw, topic)
    for round_ in range(3):
        value = b"%d" % round_

        assert append(raw, topic, batch([value], *known, 0), 12) == 0
        assert append(raw, topic, batch([value], *known, 1), 12) == 0
        assert commit(raw, topic, known, {0: round_}, 5) == [0]
        error, following = end_epoch(raw, topic, known, committed=round_ != 1)

        assert (error, following) == (0, (known[0], known[1] + 1))
        known = following

    found = [it.value for it in kafka.run(kafka.broker.read(topic, partition=0))]
    assert found == [b"0", b"0", b"2", b"2"]
    assert place(raw, topic, stable=True) == (2, 0)


def test_a_batch_of_the_epoch_before_is_refused(raw: Raw, topic: str) -> None:
    known = who(raw, topic)
    append(raw, topic, batch([b"a"], *known, 0), 12)
    _, following = end_epoch(raw, topic, known, committed=False)
    assert append(raw, topic, batch([b"b"], *following, 0), 12) == 0

    assert append(raw, topic, batch([b"late"], *known, 1), 12) == Code.INVALID_PRODUCER_EPOCH
    assert append(raw, topic, batch([b"a"], *known, 0), 12) == Code.INVALID_PRODUCER_EPOCH
    assert commit(raw, topic, known, {0: 1}, 5) == [Code.INVALID_PRODUCER_EPOCH]


def test_an_end_whose_answer_got_lost_is_answered_again_until_the_next_begins(raw: Raw, topic: str) -> None:
    known = who(raw, topic)
    append(raw, topic, batch([b"a"], *known, 0), 12)
    first = end_epoch(raw, topic, known)

    assert end_epoch(raw, topic, known) == first
    assert end_epoch(raw, topic, known, committed=False)[0] == Code.INVALID_TXN_STATE
    assert append(raw, topic, batch([b"b"], *first[1], 0), 12) == 0
    assert end_epoch(raw, topic, known)[0] == Code.PRODUCER_FENCED


def test_an_abort_of_version_2_ends_the_epoch_also_if_nothing_was_begun(raw: Raw, topic: str) -> None:
    known = who(raw, topic)

    assert end_epoch(raw, topic, known)[0] == Code.INVALID_TXN_STATE
    assert end_epoch(raw, topic, known, committed=False) == (0, (known[0], known[1] + 1))


def test_numbers_used_again_abort_where_clients_know_that(raw: Raw, topic: str) -> None:
    known = who(raw, topic)
    append(raw, topic, batch([b"a"], *known, 0), 12)
    other = batch([b"b"], *known, 0)

    assert append(raw, topic, other, 10) == Code.UNKNOWN_PRODUCER_ID
    assert append(raw, topic, other, 11) == append(raw, topic, other, 12) == Code.TRANSACTION_ABORTABLE


def test_version_11_enlists_nothing(raw: Raw, topic: str) -> None:
    known = who(raw, topic)

    assert append(raw, topic, batch([b"a"], *known, 0), 11) == Code.TRANSACTION_ABORTABLE


def test_a_batch_that_cannot_be_enlisted_does_not_keep_others_out(raw: Raw, topic: str) -> None:
    known = who(raw, topic)
    stranger = (known[0] + 1000, 0)
    partitions = [
        produce.PartitionProduceData(index=number, records=memoryview(batch([b"a"], *whose, 0)))
        for number, whose in ((0, stranger), (1, known), (7, known))
    ]
    asked = produce.ProduceRequest(
        transactional_id=topic,
        acks=-1,
        timeout_ms=1000,
        topic_data=[produce.TopicProduceData(name=topic, partition_data=partitions)],
    )

    [answer] = raw.ask(asked, produce.ProduceResponse, 12).responses

    assert [it.error_code for it in answer.partition_responses] == [
        Code.INVALID_PRODUCER_ID_MAPPING,
        0,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert end_epoch(raw, topic, known)[0] == 0


def test_batches_in_flight_keep_their_order(kafka: Server, raw: Raw, topic: str) -> None:
    known = who(raw, topic)
    for number in range(5):
        raw.send(request_of(topic, batch([b"%d" % number], *known, number)), 12)
    codes = []
    for _ in range(5):
        [answer] = raw.hear(produce.ProduceResponse).responses
        codes.append(answer.partition_responses[0].error_code)

    assert codes == [0] * 5
    assert end_epoch(raw, topic, known)[0] == 0
    found = [it.value for it in kafka.run(kafka.broker.read(topic, partition=0))]
    assert found == [b"0", b"1", b"2", b"3", b"4"]


class EndingOperations:
    """Operations of a broker on which a transaction that commits offset 7 ends after the first request."""

    def __init__(self) -> None:
        self.requests = 0

    async def unsettled_offsets(self, _: str, __: str, numbers: list[int]) -> list[int]:
        self.requests += 1
        return numbers if self.requests == 1 else []

    async def committed_offsets(self, _: str, __: str) -> dict[int, Commit]:
        self.requests += 1
        return {0: Commit(3 if self.requests == 1 else 7)}

    def layout(self, _: str) -> Layout:
        return Layout(topic="orders", id=bytes(16), partitions=1, settings=TopicSettings())


async def same(work: Awaitable[Any]) -> Any:
    return await work


@pytest.mark.parametrize("asked", [[0], []])
def test_an_offset_that_a_transaction_replaces_meanwhile_is_never_called_stable(asked: list[int]) -> None:
    """A consumer that got the old one would process messages again whose results are committed."""
    call: Any = SimpleNamespace(
        run=same, operations=EndingOperations(), request=offsets.OffsetFetchRequest(require_stable=True)
    )
    topic = offsets.OffsetFetchRequestTopics(name="orders", partition_indexes=asked)

    [answer] = asyncio.run(_topic(call, "billing", topic, "orders")).partitions

    assert (answer.committed_offset, answer.error_code) in [(7, 0), (-1, Code.UNSTABLE_OFFSET_COMMIT)]
