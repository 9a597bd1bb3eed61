"""Batches that nobody could read are refused, whatever protocol brings them, and hold nobody up."""

import time
from collections.abc import Iterator
from struct import pack
from typing import Any

import cramjam
import pytest
from confluent_kafka import Producer
from crc32c import crc32c
from tests.frontends.kafka.conftest import Server, serving
from tests.frontends.kafka.raw import Raw
from tests.unit.test_validation import BROKEN, MIB, record, with_body

from penstock.errors import KeyMissing, PenstockError
from penstock.model.message import Message
from penstock.wire.compression import GZIP, ZSTD, compress
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages import produce
from penstock.wire.records import BatchBuilder, encode_values
from penstock.wire.staged import encode_staged

NAME = "orders"
READ_MS = 1000  # What nobody waits for a read, or for another connection.


@pytest.fixture(scope="module")
def kafka() -> Iterator[Server]:
    for server in serving():
        server.run(server.broker.create_topic(NAME, partitions=1))
        server.run(server.broker.create_topic("keyed", partitions=1, compact=True))
        yield server


def sealed(data: bytes) -> bytes:
    """With the checksum that it should have."""
    return data[:17] + pack(">I", crc32c(data[21:])) + data[21:]


def unreadable() -> dict[str, bytes]:
    made = {name: with_body(body, count) for name, (body, count) in BROKEN.items() if len(body) >= 7 * count}
    made["garbage called gzip"] = with_body(bytes(range(200)), 5, GZIP)
    made["a gibibyte of zstd"] = with_body(bytes(cramjam.zstd.compress(bytes(1000 * MIB))), 1, ZSTD)
    made["an empty batch"] = with_body(b"", 0, span=1000)
    return {name: sealed(data) for name, data in made.items()}


UNREADABLE = unreadable()
TOO_LARGE = {
    "60 MiB in 2 kB": sealed(with_body(compress(ZSTD, record(value=bytes(60 * MIB))), 1, ZSTD)),
    "a batch of 20 MiB in 20 kB": bytes(encode_values([bytes(1 << 10)] * 20_000, 0, ZSTD)),
}


def request_of(topic: str, *batches: bytes) -> produce.ProduceRequest:
    partitions = [produce.PartitionProduceData(index=0, records=memoryview(data)) for data in batches]
    named = produce.TopicProduceData(name=topic, partition_data=partitions)
    return produce.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[named])


def append(raw: Raw, data: bytes, topic: str = NAME, version: int = 9) -> produce.PartitionProduceResponse:
    [answer] = raw.ask(request_of(topic, data), produce.ProduceResponse, version).responses
    return answer.partition_responses[0]


@pytest.mark.parametrize("name", UNREADABLE)
def test_kafka_refuses_what_cannot_be_read(raw: Raw, name: str) -> None:
    answer = append(raw, UNREADABLE[name])

    wanted = {Code.INVALID_RECORD, Code.MESSAGE_TOO_LARGE if name == "a gibibyte of zstd" else 0}
    assert answer.error_code in wanted
    assert answer.base_offset == -1
    assert answer.error_message


@pytest.mark.parametrize("name", TOO_LARGE)
def test_kafka_refuses_what_unpacks_to_too_much(raw: Raw, name: str) -> None:
    assert append(raw, TOO_LARGE[name]).error_code == Code.MESSAGE_TOO_LARGE


def test_a_batch_that_was_changed_on_the_way_is_told_from_one_that_was_built_wrongly(raw: Raw) -> None:
    """Clients send the one again, and not the other."""
    data = bytearray(encode_values([b"a"], 0))
    data[-2] ^= 1

    assert append(raw, bytes(data)).error_code == Code.CORRUPT_MESSAGE


@pytest.mark.parametrize("operation", ["append", "append_batches", "stage"])
@pytest.mark.parametrize("name", UNREADABLE)
def test_our_own_protocol_refuses_the_same(kafka: Server, name: str, operation: str) -> None:
    async def asked() -> Any:
        broker = kafka.broker
        operations: Any = broker.operations
        data = UNREADABLE[name]
        if operation == "append":
            return await broker.run(operations.append(NAME, 0, data))
        if operation == "append_batches":
            version, _ = await broker.run(operations.metadata(NAME))
            [answer] = await broker.run(operations.append_batches(NAME, version, [(0, data)], True))
            if isinstance(answer, PenstockError):
                raise answer
            return answer
        at = await broker.run(operations.stage(NAME, encode_staged("t", [(0, data)])))
        return await broker.run(operations.publish_staged(NAME, "app", 1, {"t": [(at, at + 1)]}))

    with pytest.raises(PenstockError) as caught:
        kafka.run(asked())
    assert caught.value.code in {"RECORDS_INVALID", "BATCH_INVALID", "MESSAGE_TOO_LARGE"}


def test_nothing_of_all_that_is_there_and_readers_go_on(kafka: Server, raw: Raw) -> None:
    before = kafka.run(kafka.broker.read(NAME, partition=0, limit=1000))
    for data in [*UNREADABLE.values(), *TOO_LARGE.values()]:
        append(raw, data)
    assert append(raw, bytes(encode_values([b"good"], 0))).error_code == 0

    after = kafka.run(kafka.broker.read(NAME, partition=0, limit=1000))

    assert [it.value for it in after[len(before) :]] == [b"good"]


@pytest.mark.slow
def test_others_are_served_while_large_batches_are_looked_at(kafka: Server, raw: Raw) -> None:
    bomb = TOO_LARGE["a batch of 20 MiB in 20 kB"]
    for _ in range(50):
        raw.send(request_of(NAME, bomb), 9)
    slowest = 0.0
    with Raw(kafka) as other:
        for number in range(50):
            began = time.monotonic()
            assert append(other, bytes(encode_values([b"%d" % number], 0)), "keyed").error_code
            slowest = max(slowest, time.monotonic() - began)
    for _ in range(50):
        [answer] = raw.hear(produce.ProduceResponse).responses
        assert answer.partition_responses[0].error_code == Code.MESSAGE_TOO_LARGE

    assert slowest < READ_MS / 1000


def test_a_small_batch_does_not_overtake_a_large_one(kafka: Server, raw: Raw) -> None:
    kafka.run(kafka.broker.create_topic("numbered", partitions=1))
    many = 30_000
    large = encode_values([b""] * many, 0)
    batches = [numbered(bytes(large), 0), numbered(bytes(encode_values([b"small"], 0)), many)]
    for data in batches:
        raw.send(request_of("numbered", data), 9)

    offsets = []
    for _ in batches:
        [answer] = raw.hear(produce.ProduceResponse).responses
        assert answer.partition_responses[0].error_code == 0
        offsets.append(answer.partition_responses[0].base_offset)

    assert offsets == [0, many]


def numbered(data: bytes, sequence: int) -> bytes:
    """The same batch with a producer's numbers."""
    return sealed(data[:43] + pack(">qhi", 4711, 0, sequence) + data[57:])


# Compacted topics.


def test_a_record_without_a_key_is_refused_by_a_compacted_topic_and_named(raw: Raw) -> None:
    builder = BatchBuilder()
    for key in (b"a", None, b"b", None):
        builder.add(key, b"v", [])

    answer = append(raw, bytes(builder.build(0, 0)), "keyed")

    assert answer.error_code == Code.INVALID_RECORD
    assert [it.batch_index for it in answer.record_errors] == [1, 3]
    assert all("key" in (it.batch_index_error_message or "") for it in answer.record_errors)
    assert append(raw, bytes(encode_values([b"v"], 0)), "keyed", 3).error_code == Code.INVALID_RECORD


def test_librdkafka_hears_that_a_key_is_missing(kafka: Server) -> None:
    told: list[Any] = []
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    producer.produce("keyed", b"v", on_delivery=lambda error, _: told.append(error))
    producer.produce("keyed", b"v", key=b"k", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(10) == 0

    assert any(error is not None and error.code() == Code.INVALID_RECORD for error in told)


def test_our_own_clients_hear_the_same(kafka: Server) -> None:
    broker = kafka.broker

    for work in (
        broker.publish("keyed", b"v"),
        broker.publish_batch("keyed", [b"a", b"b"]),
        broker.publish_batch("keyed", [Message(b"a", key="k"), Message(b"b")]),
        broker.publish("keyed", b"v", delay="1s"),
    ):
        with pytest.raises(KeyMissing, match="'keyed' is compacted"):
            kafka.run(work)
    assert kafka.run(broker.publish("keyed", b"v", key="k")).offset is not None
