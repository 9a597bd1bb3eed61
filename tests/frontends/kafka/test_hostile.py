"""What no client sends, and clients that do not read."""

import asyncio
import gc
import socket
import struct
from collections.abc import Iterator

import pytest
from tests.frontends.kafka.clients import publish
from tests.frontends.kafka.conftest import Server
from tests.frontends.kafka.raw import Raw

from penstock.frontends.kafka.apis import APIS
from penstock.frontends.kafka.call import Api
from penstock.wire.kafka.codec import decode, encode
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.wire.kafka.messages.metadata import MetadataRequest, MetadataResponse
from penstock.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.wire.records import encode_values


@pytest.fixture
def wire(kafka: Server) -> Iterator[socket.socket]:
    host, _, port = kafka.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as made:
        yield made


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def head(key: int, version: int) -> bytes:
    return struct.pack(">hhih", key, version, 7, -1)


@pytest.mark.parametrize(
    "data",
    [
        b"PING\n",
        struct.pack(">i", -1),
        struct.pack(">i", 1 << 30),
        framed(b""),
        framed(b"\0"),
        framed(b"\xff" * 100),
        framed(head(9999, 0)),
        framed(head(1, 99)),
        framed(head(3, -1)),
        framed(head(3, 1) + b"\x7f\xff\xff\xff"),
        framed(struct.pack(">hhih", 3, 1, 7, 30_000)),
    ],
    ids=lambda data: data[:12].hex(),
)
def test_what_cannot_be_read_ends_the_connection_and_nothing_else(
    kafka: Server, wire: socket.socket, data: bytes
) -> None:
    wire.sendall(data)

    assert wire.recv(100) == b""
    publish(kafka, [b"others go on"])


def test_a_version_that_is_not_there_is_answered_in_the_oldest_by_api_versions(wire: socket.socket) -> None:
    wire.sendall(framed(head(18, 99) + b"whatever"))

    (size,) = struct.unpack(">i", wire.recv(4))
    answer = decode(ApiVersionsResponse, 0, memoryview(wire.recv(size)), 4)

    assert answer.error_code == Code.UNSUPPORTED_VERSION
    assert 18 in [each.api_key for each in answer.api_keys]


def test_what_is_offered_is_what_there_is(kafka: Server) -> None:
    with Raw(kafka) as raw:
        answer = raw.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)

    told = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert told == {key: api.offered for key, api in APIS.items()}


def test_a_frame_in_any_number_of_pieces(wire: socket.socket) -> None:
    data = framed(head(18, 0)) * 3
    for at in range(len(data)):
        wire.sendall(data[at : at + 1])

    answers = b""
    while answers.count(struct.pack(">i", 7)) < 3:
        answers += wire.recv(10_000)


def produce(number: int, records: bytes | None) -> ProduceRequest:
    partition = PartitionProduceData(index=number, records=records)
    return ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="orders", partition_data=[partition])])


def code_of(answer: ProduceResponse) -> int:
    [topic] = answer.responses
    [partition] = topic.partition_responses
    return partition.error_code


def test_batches_that_are_none_are_refused_one_by_one(kafka: Server) -> None:
    kafka.run(kafka.broker.create_topic("orders"))
    good = bytes(encode_values([b"x"], 1000))
    damaged = good[:-1] + b"?"
    old = good[:16] + b"\1" + good[17:]

    with Raw(kafka) as raw:
        codes = [
            code_of(raw.ask(produce(number, records), ProduceResponse, 8))
            for number, records in (
                (0, good),
                (0, damaged),
                (0, old),
                (0, None),
                (0, b"short"),
                (0, good + good),
                (99, good),
            )
        ]

    assert codes == [
        Code.NONE,
        Code.CORRUPT_MESSAGE,
        Code.INVALID_RECORD,
        Code.INVALID_RECORD,
        Code.INVALID_RECORD,
        Code.INVALID_RECORD,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_acks_that_are_none_are_refused(kafka: Server) -> None:
    request = produce(0, bytes(encode_values([b"x"], 1000)))
    request.acks = 2

    with Raw(kafka) as raw:
        assert code_of(raw.ask(request, ProduceResponse, 8)) == Code.INVALID_REQUIRED_ACKS


def test_answers_come_in_the_order_of_the_requests(kafka: Server) -> None:
    kafka.run(kafka.broker.create_topic("orders", partitions=1))
    wait = FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1,
        topics=[FetchTopic(topic="orders", partitions=[FetchPartition(partition_max_bytes=1000)])],
    )

    with Raw(kafka) as raw:
        raw.send(wait, 12)  # A request that waits behind it ends the wait.
        raw.send(MetadataRequest(topics=None), 9)
        for _ in range(3):
            raw.send(produce(0, bytes(encode_values([b"x"], 1000))), 8)
        fetched = raw.hear(FetchResponse)
        raw.hear(MetadataResponse)
        offsets = [
            raw.hear(ProduceResponse).responses[0].partition_responses[0].base_offset for _ in range(3)
        ]

    assert fetched.responses[0].partitions[0].records == b""
    assert offsets == [0, 1, 2]


def _unsent(transport: asyncio.Transport | None) -> int:
    return 0 if transport is None else transport.get_write_buffer_size()


def test_a_client_that_does_not_read_is_not_read(kafka: Server, wire: socket.socket) -> None:
    """Each request is answered with a megabyte: what is kept for the client has its limit."""
    publish(kafka, [bytes(900_000)] * 4, settings={"message.max.bytes": 2_000_000})
    partitions = [FetchPartition(partition=number, partition_max_bytes=1 << 20) for number in range(4)]
    request = FetchRequest(topics=[FetchTopic(topic="orders", partitions=partitions)])
    frame = framed(head(1, 4) + b"".join(encode(request, 4)))

    wire.setblocking(False)
    sent = 0
    try:
        while sent < 50_000_000:
            sent += wire.send(frame * 100)
    except BlockingIOError:
        pass

    kept = [each._out_bytes + _unsent(each._transport) for each in kafka.listener.connections.open]
    assert sum(kept) < 8_000_000
    publish(kafka, [b"others go on"])


def test_a_topic_that_is_deleted_ends_a_fetch_that_waits(kafka: Server) -> None:
    kafka.run(kafka.broker.create_topic("orders", partitions=1))
    wait = FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1,
        topics=[FetchTopic(topic="orders", partitions=[FetchPartition(partition_max_bytes=1000)])],
    )

    with Raw(kafka) as raw:
        raw.send(wait, 12)
        kafka.run(kafka.broker.delete_topic("orders"))
        [topic] = raw.hear(FetchResponse).responses

    assert topic.partitions[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


async def lose(kafka: Server, api: Api) -> None:
    """Have the only connection lost in the same turn of the loop in which a request arrives."""
    while not kafka.listener.connections.open:  # noqa: ASYNC110 - no event says so.
        await asyncio.sleep(0)
    [connection] = kafka.listener.connections.open
    assert connection._transport is not None
    connection._transport.abort()  # The loop says so to the connection in its next turn, before tasks begin.
    version = api.offered[1]
    begin = head(api.key, version) + b"\0" * (version >= api.flexible)
    connection.data_received(framed(begin + b"".join(map(bytes, encode(api.request(), version)))))
    while kafka.listener.connections.open:  # noqa: ASYNC110 - the same.
        await asyncio.sleep(0)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: str(api.request.__name__))
def test_a_request_whose_connection_is_lost_before_it_begins_is_dropped_without_a_warning(
    kafka: Server, api: Api, capfd: pytest.CaptureFixture[str]
) -> None:
    """Warnings are errors here: a handler that is never awaited fails the test."""
    host, _, port = kafka.address.rpartition(":")
    with socket.create_connection((host, int(port)), 10):
        kafka.run(lose(kafka, api))
    gc.collect()

    assert "never awaited" not in capfd.readouterr().err


def test_frames_that_are_not_finished_have_a_limit_in_all(kafka: Server) -> None:
    kafka.listener.half_frame_bytes_max = 1_000_000
    host, _, port = kafka.address.rpartition(":")
    begun = struct.pack(">i", 900_000) + bytes(600_000)

    with socket.create_connection((host, int(port)), 10) as one:
        one.sendall(begun)
        with socket.create_connection((host, int(port)), 10) as other:
            other.sendall(begun)
            one.settimeout(0.2)
            other.settimeout(10)
            ended = [closed(other), closed(one)]

    assert ended.count(True) >= 1
    publish(kafka, [b"others go on"])


def closed(wire: socket.socket) -> bool:
    try:
        return wire.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
