"""Sequence numbers that a producer uses twice: a repeat is answered as one only if it is one.

A producer loses its connection after the broker has written a batch and before the answer, and aborts.
librdkafka then gives the numbers of that batch to the next transaction.  Whoever takes its first batch for
a repeat loses a committed message without an error.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from tests.frontends.kafka.conftest import Server, serving
from tests.frontends.kafka.raw import Raw
from tests.frontends.kafka.test_cut_wires import Wire
from tests.frontends.kafka.test_transaction_apis import add, end, init, who
from tests.transactional import batch

from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages import produce
from penstock.wire.kafka.messages.admin import transaction_admin
from penstock.wire.kafka.messages.parts import NamePartitionIndexes
from penstock.wire.records import BatchBuilder

TIMEOUT_S = 30
NAME = "orders"


@pytest.fixture(params=["memory", "disk"])
def kafka(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Server]:
    for server in serving(None if request.param == "memory" else str(tmp_path)):
        server.run(server.broker.create_topic(NAME, partitions=2))
        yield server


def request_of(data: bytes, transactional_id: str | None = NAME) -> produce.ProduceRequest:
    partition = produce.PartitionProduceData(index=0, records=memoryview(data))
    topic = produce.TopicProduceData(name=NAME, partition_data=[partition])
    return produce.ProduceRequest(
        transactional_id=transactional_id, acks=-1, timeout_ms=1000, topic_data=[topic]
    )


def append(raw: Raw, data: bytes, transactional_id: str | None = NAME) -> tuple[int, int]:
    """The error, and the offset."""
    [topic] = raw.ask(request_of(data, transactional_id), produce.ProduceResponse, 10).responses
    [answer] = topic.partition_responses
    return answer.error_code, answer.base_offset


def written(kafka: Server) -> list[bytes | None]:
    return [message.value for message in kafka.run(kafka.broker.read(NAME, partition=0))]


def wait_until_written(raw: Raw, producer_id: int) -> None:
    """Until the broker knows a number of the producer."""
    topic = NamePartitionIndexes(name=NAME, partition_indexes=[0])
    asked = transaction_admin.DescribeProducersRequest(topics=[topic])
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        [found] = raw.ask(asked, transaction_admin.DescribeProducersResponse, 0).topics
        if any(it.producer_id == producer_id for it in found.partitions[0].active_producers):
            return
    raise AssertionError("the batch was never written")


@pytest.mark.parametrize("value", [b"aborted", b"wanted"])
def test_a_number_of_an_aborted_batch_is_refused_in_the_next_transaction(kafka: Server, value: bytes) -> None:
    with Raw(kafka) as raw:
        known = who(raw, NAME)
        add(raw, NAME, known, [0])
        with Raw(kafka) as lost:  # Its answer is never read.
            lost.send(request_of(batch([b"aborted"], *known, 0)), 10)
            wait_until_written(raw, known[0])
        assert end(raw, NAME, known, committed=False) == 0

        add(raw, NAME, known, [0])
        assert append(raw, batch([value], *known, 0)) == (Code.UNKNOWN_PRODUCER_ID, -1)

        assert end(raw, NAME, known, committed=False) == 0
        anew = init(raw, NAME, producer_id=known[0], producer_epoch=known[1])
        bumped = (anew.producer_id, anew.producer_epoch)
        assert bumped == (known[0], known[1] + 1)
        add(raw, NAME, bumped, [0])
        assert append(raw, batch([b"wanted"], *bumped, 0))[0] == 0
        assert end(raw, NAME, bumped) == 0
    assert written(kafka) == [b"wanted"]


def rebuilt(value: bytes, producer_id: int, *, time_ms: int, codec: int) -> bytes:
    builder = BatchBuilder()
    builder.add(b"k", value, [("h", b"v")])
    return bytes(builder.build(time_ms, time_ms, codec, producer_id, 0, 0))


@pytest.mark.parametrize(("time_ms", "codec"), [(1000, 0), (2000, 0), (1000, 4)])
def test_a_batch_that_is_sent_again_is_a_repeat_also_if_it_was_built_anew(
    kafka: Server, time_ms: int, codec: int
) -> None:
    with Raw(kafka) as raw:
        known = init(raw, None).producer_id
        first = append(raw, rebuilt(b"a", known, time_ms=1000, codec=0), None)

        assert append(raw, rebuilt(b"a", known, time_ms=time_ms, codec=codec), None) == first
        other = rebuilt(b"b", known, time_ms=time_ms, codec=codec)
        assert append(raw, other, None) == (Code.UNKNOWN_PRODUCER_ID, -1)
    assert written(kafka) == [b"a"]


def test_a_batch_of_no_transaction_is_no_repeat_of_one_in_a_transaction(kafka: Server) -> None:
    with Raw(kafka) as raw:
        known = who(raw, NAME)
        add(raw, NAME, known, [0])
        data = batch([b"a"], *known, 0)
        assert append(raw, data)[0] == 0

        assert append(raw, data)[0] == 0
        assert append(raw, batch([b"a"], *known, 0, attributes=0))[0] == Code.UNKNOWN_PRODUCER_ID
        assert end(raw, NAME, known) == 0
    assert written(kafka) == [b"a"]


@pytest.fixture
def wire(kafka: Server) -> Iterator[Wire]:
    made = Wire(kafka)
    kafka.run(made.open())
    yield made
    kafka.run(made.close())


def transactional(wire: Wire) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": wire.address,
            "transactional.id": "t",
            "linger.ms": 0,
            "reconnect.backoff.ms": 1,
            "reconnect.backoff.max.ms": 10,
            "retry.backoff.ms": 1,
            "retry.backoff.max.ms": 10,
            "log_level": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def attempt(producer: Producer, value: bytes) -> bool:
    """Whether a transaction of one message was committed."""
    try:
        producer.begin_transaction()
        producer.produce(NAME, value, partition=0)
        producer.commit_transaction(TIMEOUT_S)
    except KafkaException as failure:
        if not failure.args[0].txn_requires_abort():
            raise
        producer.abort_transaction(TIMEOUT_S)
        return False
    return True


@pytest.mark.slow
def test_librdkafka_loses_no_committed_message_after_an_abort_while_it_was_away(wire: Wire) -> None:
    producer = transactional(wire)
    wanted = [b"%d" % number for number in range(5)]
    for value in wanted:
        producer.begin_transaction()
        producer.produce(NAME, b"first", partition=0)
        producer.flush(TIMEOUT_S)
        wire.proxy.stays_away = wire.proxy.swallow = True
        cuts = wire.proxy.cuts
        producer.produce(NAME, b"aborted", partition=0)
        while wire.proxy.cuts == cuts:
            producer.poll(0.01)
        with ThreadPoolExecutor() as threads:
            aborting = threads.submit(producer.abort_transaction, TIMEOUT_S)
            time.sleep(0.2)  # Until it has thrown away what it would have sent again.
            wire.proxy.away = False
            aborting.result()

        assert any(attempt(producer, value) for _ in range(3))
    assert wire.written(0) == wanted
