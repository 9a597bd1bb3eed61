"""What clients can make of a server: as much as its limits allow, while everybody else is served.

Each limit has an error of its own in every protocol, and reaching it harms nobody.  Thousands of partitions
are made, used and deleted while a bystander gets its answers, with fewer descriptors than partitions.
"""

import json
import os
import resource
import struct
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import TypeVar

import pytest
from tests.server.bystander import Bystander, read_all
from tests.server.peer import Peer
from tests.server.process import PATIENCE_S, Server
from tests.stalls import check_logged

import penstock
from penstock.errors import LimitReached
from penstock.frontends.kqueue import opcodes as kqueue_opcodes
from penstock.transport.frames import plain_frame
from penstock.wire.kafka.codec import decode, encode
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.fields import KafkaMessage
from penstock.wire.kafka.lengths import passed_over
from penstock.wire.kafka.messages.admin.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.kafka.messages.groups.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.wire.kafka.messages.produce import InitProducerIdRequest, InitProducerIdResponse

LISTENERS = ("native", "text", "status", "http", "kafka")
SMALL = {
    "TOPICS_MAX": "2",
    "PARTITIONS_MAX": "5",
    "TOPIC_PARTITIONS_MAX": "4",
    "GROUPS_MAX": "2",
    "GROUP_MEMBERS_MAX": "2",
    "TRANSACTIONAL_IDS_MAX": "1",
}
MANY = 3000
STOP_S = 10.0  # server.stop_timeout.
ResponseT = TypeVar("ResponseT", bound=KafkaMessage)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that is full: two topics with five partitions, two groups, one transactional id."""
    settings = {f"PENSTOCK_BROKER__{name}": value for name, value in SMALL.items()}
    with Server(tmp_path_factory.mktemp("small"), listeners=LISTENERS, settings=settings) as server:
        with Peer(server) as peer:
            peer.call("create_topic", name="a", options={"partitions": 3})
            peer.call("create_topic", name="b", options={"partitions": 2})
            for group in ("one", "two"):
                peer.call("create_group", topic="a", group=group, options={})
        first = InitProducerIdRequest(transactional_id="first", transaction_timeout_ms=60_000)
        assert ask(server, first, InitProducerIdResponse, 2).error_code == 0
        yield server
        server.check_log()


def ask(server: Server, request: KafkaMessage, response: type[ResponseT], version: int) -> ResponseT:
    """One request of Kafka's protocol."""
    flexible = version >= request.FLEXIBLE
    head = struct.pack(">hhih", request.KEY, version, 1, 1) + b"x" + b"\0" * flexible
    body = head + b"".join(bytes(part) for part in encode(request, version))
    with server.connect("kafka") as made, made.makefile("rb") as answer:
        made.sendall(struct.pack(">i", len(body)) + body)
        frame = memoryview(answer.read(struct.unpack(">i", answer.read(4))[0]))
    return decode(response, version, frame, passed_over(frame, 4) if flexible else 4)


@pytest.mark.parametrize(
    ("name", "arguments", "setting"),
    [
        ("create_topic", {"name": "c", "options": {"partitions": 1}}, "topics_max"),
        ("alter_topic", {"name": "a", "options": {"partitions": 4}}, "partitions_max"),
        ("alter_topic", {"name": "a", "options": {"partitions": 5}}, "topic_partitions_max"),
        ("create_group", {"topic": "b", "group": "three", "options": {}}, "groups_max"),
    ],
)
def test_the_native_protocol_names_the_limit(
    small: Server, name: str, arguments: dict[str, object], setting: str
) -> None:
    with Peer(small) as peer, pytest.raises(LimitReached) as refusal:
        peer.call(name, **arguments)

    assert refusal.value.facts["setting"] == setting


def test_one_consumer_more_than_a_group_may_have_is_refused(small: Server) -> None:
    with Peer(small) as peer:
        peer.open("a", "one")
        peer.open("a", "one")
        with pytest.raises(LimitReached, match="group_members_max"):
            peer.open("a", "one")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/topics", {"name": "c"}),
        ("PATCH", "/v1/topics/a", {"partitions": 5}),
        ("PUT", "/v1/topics/b/groups/three", {}),
    ],
)
def test_the_http_api_answers_409_and_names_the_limit(
    small: Server, method: str, path: str, body: dict[str, object]
) -> None:
    http = HTTPConnection("127.0.0.1", small.ports["http"], timeout=PATIENCE_S)
    http.request(method, path, json.dumps(body), {"content-type": "application/json"})
    answer = http.getresponse()
    told = json.loads(answer.read())
    http.close()

    assert (answer.status, told["code"]) == (409, "LIMIT_REACHED")


def test_the_text_protocol_and_kqueues_say_err(small: Server) -> None:
    with small.connect("text") as text:
        text.sendall(b"PRODUCE c 0 x\nSUB b three\nPING\nQUIT\n")
        lines = read_all(text).decode().splitlines()
    with small.connect("native") as kqueue:
        kqueue.sendall(plain_frame(kqueue_opcodes.SUB, b'{"Topic": "c"}'))
        answer = kqueue.recv(1000)

    assert ["LIMIT_REACHED" in line and line.startswith("ERR ") for line in lines[:2]] == [True, True]
    assert lines[2] == "OK PONG"
    assert answer.startswith(b"ERR ")
    assert b"LIMIT_REACHED" in answer


def test_kafkas_clients_get_a_policy_violation(small: Server) -> None:
    topic = CreatableTopic(name="c", num_partitions=1, replication_factor=1)
    made = ask(small, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 5)
    grown = ask(
        small,
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=5, assignments=None)]),
        CreatePartitionsResponse,
        1,
    )
    found = ask(small, MetadataRequest(topics=[MetadataRequestTopic(name="c")]), MetadataResponse, 4)
    place = OffsetCommitRequestTopic(
        name="b", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=0)]
    )
    committed = ask(small, OffsetCommitRequest(group_id="three", topics=[place]), OffsetCommitResponse, 7)
    second = InitProducerIdRequest(transactional_id="second", transaction_timeout_ms=60_000)
    begun = ask(small, second, InitProducerIdResponse, 2)

    codes = [
        made.topics[0].error_code,
        grown.results[0].error_code,
        found.topics[0].error_code,
        committed.topics[0].partitions[0].error_code,
        begun.error_code,
    ]
    assert codes == [Code.POLICY_VIOLATION] * 5
    assert "broker.topics_max" in (made.topics[0].error_message or "")


# Many of everything, and few descriptors.


def few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))


def test_thousands_of_partitions_leave_descriptors_and_time_for_everybody(tmp_path: Path) -> None:
    with Server(tmp_path, listeners=LISTENERS, before=few_descriptors) as server:
        with Bystander(server) as bystander, penstock.connect(server.url) as broker:
            for _ in range(2):
                broker.create_topic("big", partitions=MANY, durability="os")  # The disk may be slow.
                bystander.check()
                broker.publish_batch("big", [penstock.Message(b"x", partition=n) for n in range(0, 300, 3)])
                bystander.check()
                descriptors = len(os.listdir(f"/proc/{server.pid}/fd"))
                broker.alter_topic("big", partitions=MANY + 500)
                bystander.check()
                assert len(broker.describe_topic("big").partitions) == MANY + 500
                broker.delete_topic("big")
                bystander.check()
            assert descriptors < 400

            broker.create_topic("big", partitions=MANY)
            names = [MetadataRequestTopic(name=f"made-{number}") for number in range(300)]
            made = ask(server, MetadataRequest(topics=names), MetadataResponse, 4)
            assert {topic.error_code for topic in made.topics} == {0}
            bystander.check()
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < STOP_S
        server.start()
        with penstock.connect(server.url) as broker:
            assert len(broker.topics()) == 302
        server.check_log()
        check_logged(server.log())
