"""What decent clients say on each listener, piece by piece, for tests that spoil it.

A piece is a frame or a line.  Topic ``fuzz`` must exist; ``version`` is that of
its settings.  Said in order and unspoiled, every piece is a valid request.
"""

import struct
from typing import Any

import msgspec
from tests.server.peer import HELLO

from penstock.frontends.kqueue import opcodes as kqueue_opcodes
from penstock.model.message import Message
from penstock.operations.codec import wire_message
from penstock.transport.frames import plain_frame
from penstock.wire import native
from penstock.wire.native_bodies import (
    AckAndPublish,
    ExtendBody,
    NackBody,
    OpenConsumer,
    PublishMessages,
    RejectBody,
    encode_body,
    encode_call,
)
from penstock.wire.records import BatchBuilder, encode_values

TOPIC = "fuzz"


def native_pieces(version: int) -> list[bytes]:
    """Penstock's own protocol: every opcode, and every operation that does not destroy the topic."""
    later = Message(
        b"later", key=b"k", headers={"a": b"b"}, priority="high", ttl="1h", delay="5m", dedup_id="d"
    )
    run = (0, 1, 0, 1)
    plain = bytes(encode_values([b"one", b"two"], 0, 0))
    pieces = [
        encode_body(native.METADATA, 2, TOPIC),
        native.frame(native.NEW_PRODUCER, 3),
        native.encode_publish(4, TOPIC, version, native.ACKS_DURABLE, [(0, plain), (1, numbered())]),
        native.encode_publish(0, TOPIC, version, native.ACKS_NONE, [(0, plain)]),
        encode_body(native.PUBLISH_MESSAGES, 5, PublishMessages(TOPIC, 2, [wire_message(later)])),
        encode_body(native.OPEN_CONSUMER, 6, OpenConsumer(topic=TOPIC, group="queue", max_in_flight=1000)),
        encode_body(
            native.OPEN_CONSUMER, 7, OpenConsumer(topic=TOPIC, group="stream", options={"kind": "stream"})
        ),
        native.encode_receive(8, 1, 10, 0),
        native.encode_receive(9, 1, 10, 60_000),
        native.encode_receive(10, 2, 10, 0),
        native.encode_credit(1, 100),
        native.encode_credit(2, 100),
        native.encode_ack(11, 1, [run, (1, 2, 3, 4)]),
        encode_body(native.NACK, 12, NackBody(1, [run], 5, "ValueError", "no", "abc")),
        encode_body(native.REJECT, 13, RejectBody(1, [run], "poison")),
        encode_body(native.EXTEND, 14, ExtendBody(1, [(0, 1)], 30_000)),
        native.encode_commit(15, 2, [(0, 1), (1, 0)]),
        native.encode_consumer(native.HEARTBEAT, 16, 2),
        encode_body(
            native.ACK_AND_PUBLISH, 17, AckAndPublish(1, [run], [(TOPIC, wire_message(Message(b"out")))])
        ),
        native.frame(native.PING, 18),
        native.encode_consumer(native.CLOSE_CONSUMER, 19, 1),
    ]
    return [HELLO, *pieces, *(encode_call(20, name, told) for name, told in calls())]


def numbered() -> bytes:
    """A batch of an idempotent producer."""
    builder = BatchBuilder()
    builder.add(b"key", b"value", [("a", b"b")])
    return bytes(builder.build(0, 0, 0, producer_id=1, producer_epoch=0, base_sequence=0))


def calls() -> list[tuple[str, dict[str, Any]]]:
    """Operations by name, with arguments."""
    message = msgspec.to_builtins(wire_message(Message(b"again")), builtin_types=(bytes,))
    return [
        ("create_topic", {"name": "fuzz-made", "options": {"partitions": 2, "durability": "os"}}),
        ("alter_topic", {"name": "fuzz-made", "options": {"retention": "1d"}}),
        ("delete_topic", {"name": "fuzz-made"}),
        ("topics", {}),
        ("describe_topic", {"name": TOPIC}),
        ("create_group", {"topic": TOPIC, "group": "made", "options": {"visibility": "30s"}}),
        ("describe_group", {"topic": TOPIC, "group": "made"}),
        ("seek", {"topic": TOPIC, "group": "made", "to": "beginning"}),
        ("delete_group", {"topic": TOPIC, "group": "made"}),
        ("read", {"topic": TOPIC, "partition": 0, "offset": 0, "limit": 10}),
        ("read", {"topic": TOPIC, "from_time": "2026-01-01T00:00:00Z", "limit": 10}),
        ("peek", {"topic": TOPIC, "count": 3}),
        ("trace", {"topic": TOPIC, "partition": 0, "offset": 0}),
        ("schedule", {"topic": TOPIC, "message": message, "cron": "0 9 * * mon-fri", "timezone": "UTC"}),
        ("scheduled", {"topic": TOPIC, "limit": 10}),
        ("scheduled_count", {"topic": TOPIC}),
        ("cancel", {"schedule_id": "fuzz:0:1"}),
        ("reschedule", {"schedule_id": "fuzz:0:1", "delay": "1h"}),
        ("dead_letters", {"topic": TOPIC, "limit": 10}),
        ("dead_letter_errors", {"topic": TOPIC}),
        ("redrive", {"topic": TOPIC, "limit": 10, "dry_run": True}),
        ("stats", {}),
    ]


def kqueue_pieces() -> list[bytes]:
    """KQueue's protocol."""
    bodies: list[tuple[int, Any]] = [
        (kqueue_opcodes.PING, None),
        (kqueue_opcodes.SUB, {"Topic": "fuzz-kqueue"}),
        (kqueue_opcodes.PUB, {"Topic": "fuzz-kqueue", "Payload": "flat"}),
        (kqueue_opcodes.PUB, {"Topic": "fuzz-kqueue", "Message": {"ID": "", "Payload": "nested"}}),
        (kqueue_opcodes.SUB, {"Topic": "fuzz-kqueue", "Group": "other"}),
        (kqueue_opcodes.ACK, {"MessageID": "4f1f6b5a-7c5e-5d0c-9d0b-6b1f3a2c7e90"}),
    ]
    return [
        plain_frame(opcode, b"" if body is None else msgspec.json.encode(body)) for opcode, body in bodies
    ]


def text_pieces() -> list[bytes]:
    """The text protocol."""
    return [
        b"PING\n",
        b"HELP\n",
        b"TOPICS\n",
        b"PRODUCE fuzz-text 0 new user: alex\n",
        b"PUB fuzz-text two books\r\n",
        b"CONSUME fuzz-text 0\n",
        b"SUB fuzz-text\n",
        b"SUB fuzz-text other\n",
        b"ACK fuzz-text:0:0\n",
        b"QUIT\n",
    ]


def status_pieces() -> list[bytes]:
    """The status page."""
    return [b"GET /metrics HTTP/1.1\r\n", b"Host: localhost\r\n", b"Accept: */*\r\n", b"\r\n"]


def announced(opcode: int, length: int) -> bytes:
    """The head of a frame."""
    return struct.pack(">BI", opcode, length)
