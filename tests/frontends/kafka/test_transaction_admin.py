"""Looking at transactions and producers, with a producer that has one under way."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from tests.frontends.kafka.clients import producer, publish
from tests.frontends.kafka.conftest import Server, serving
from tests.frontends.kafka.raw import Raw, versions

from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.admin import transaction_admin
from penstock.wire.kafka.messages.parts import NamePartitionIndexes


@pytest.fixture(scope="module")
def kafka() -> Iterator[Server]:
    for server in serving():
        server.run(server.broker.create_topic("orders", partitions=2))
        yield server


@pytest.fixture
def underway(kafka: Server) -> Iterator[Producer]:
    """A producer named "ledger-1" that has written to partition 1, and not decided."""
    made = producer(kafka, {"transactional.id": "ledger-1", "transaction.timeout.ms": 40_000})
    made.init_transactions(10)
    made.begin_transaction()
    made.produce("orders", b"a", partition=1)
    assert made.flush(10) == 0
    yield made
    made.abort_transaction(10)


def described(raw: Raw, name: str) -> transaction_admin.DescribedTransaction:
    asked = transaction_admin.DescribeTransactionsRequest(transactional_ids=[name])
    [told] = raw.ask(asked, transaction_admin.DescribeTransactionsResponse, 0).transaction_states
    return told


def listed(raw: Raw, version: int = 2, **wanted: object) -> transaction_admin.ListTransactionsResponse:
    asked = transaction_admin.ListTransactionsRequest(**wanted)  # type: ignore[arg-type]
    return raw.ask(asked, transaction_admin.ListTransactionsResponse, version)


def names(told: transaction_admin.ListTransactionsResponse) -> list[tuple[str, str]]:
    return [(each.transactional_id, each.transaction_state) for each in told.transaction_states]


@pytest.mark.usefixtures("underway")
def test_a_transaction_that_is_under_way_is_told_with_its_partitions(kafka: Server, raw: Raw) -> None:
    told = described(raw, "ledger-1")

    assert (told.error_code, told.transaction_state, told.transaction_timeout_ms) == (0, "Ongoing", 40_000)
    assert [(topic.topic, topic.partitions) for topic in told.topics] == [("orders", [1])]
    now_ms = kafka.listener.shared.clock.wall_ms()
    assert now_ms - 40_000 < told.transaction_start_time_ms <= now_ms


def test_a_transaction_that_is_decided_holds_nothing(raw: Raw, underway: Producer) -> None:
    underway.commit_transaction(10)

    told = described(raw, "ledger-1")

    assert (told.transaction_state, told.topics, told.transaction_start_time_ms) == ("CompleteCommit", [], -1)
    underway.begin_transaction()  # For the fixture's end.


def test_a_name_that_nobody_has_is_unknown(raw: Raw) -> None:
    assert described(raw, "nobody").error_code == Code.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.usefixtures("underway")
@pytest.mark.parametrize("version", versions(transaction_admin.ListTransactionsRequest))
def test_transactions_are_listed_by_what_they_are(raw: Raw, version: int) -> None:
    mine = ("ledger-1", "Ongoing")
    producer_id = described(raw, "ledger-1").producer_id

    assert mine in names(listed(raw, version))
    assert mine in names(listed(raw, version, state_filters=["Ongoing"]))
    assert mine in names(listed(raw, version, producer_id_filters=[producer_id]))
    assert mine not in names(listed(raw, version, producer_id_filters=[producer_id + 1000]))
    assert mine not in names(listed(raw, version, state_filters=["Empty", "Dead"]))
    assert listed(raw, version, state_filters=["Lost", "Dead"]).unknown_state_filters == ["Lost"]
    if version >= 1:
        assert mine not in names(listed(raw, version, duration_filter=60_000))
        assert mine in names(listed(raw, version, duration_filter=-1))
    if version >= 2:
        assert names(listed(raw, version, transactional_id_pattern="ledger-.")) == [mine]
        assert names(listed(raw, version, transactional_id_pattern="ledger")) == []
        assert listed(raw, transactional_id_pattern="(").error_code == Code.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize("pattern", ["(a|aa)*b", "(.|..)*[!]", "((a?){100}){9}x"])
def test_a_hostile_pattern_stops_nobody(kafka: Server, raw: Raw, pattern: str) -> None:
    for number in range(3):
        named = producer(kafka, {"transactional.id": "a" * 197 + str(number)})
        named.init_transactions(10)

    answer = listed(raw, transactional_id_pattern=pattern)

    assert (answer.error_code, answer.transaction_states) == (0, [])
    assert len(names(listed(raw, transactional_id_pattern="(a|aa)*[0-9]"))) == 3


@pytest.mark.usefixtures("underway")
def test_producers_of_a_partition_are_told(kafka: Server, raw: Raw) -> None:
    plain = publish(kafka, [b"b"] * 20, settings={"enable.idempotence": True, "linger.ms": 50})
    asked = transaction_admin.DescribeProducersRequest(
        topics=[
            NamePartitionIndexes(name="orders", partition_indexes=[0, 1, 7]),
            NamePartitionIndexes(name="nothing", partition_indexes=[0]),
        ]
    )
    orders, nothing = raw.ask(asked, transaction_admin.DescribeProducersResponse, 0).topics

    first, second, third = orders.partitions
    mine = described(raw, "ledger-1").producer_id
    [of_mine] = [each for each in second.active_producers if each.producer_id == mine]
    assert of_mine.current_txn_start_offset >= 0
    assert of_mine.coordinator_epoch == 0
    assert mine not in [each.producer_id for each in first.active_producers]
    idempotent = [each for each in first.active_producers if each.current_txn_start_offset == -1]
    assert idempotent
    assert idempotent[-1].last_sequence == len([it for it in plain if it.partition() == 0]) - 1
    assert third.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert nothing.partitions[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
