"""Valid inputs of every target, to begin with."""

import struct

import msgspec
from tests.fuzz import corpus
from tests.fuzz.targets import HTTP
from tests.server.conversations import kqueue_pieces, native_pieces, numbered, text_pieces

from penstock.broker.access.access import AccessBook
from penstock.broker.journal.intents import Finished
from penstock.broker.kafka.group_configs import GroupConfigBook
from penstock.broker.storage.checked_json import encode_checked
from penstock.broker.topic.catalogue import Manifest, StoredTopic
from penstock.cluster.core.agreement import _Envelope
from penstock.cluster.core.metadata import Drain, State
from penstock.cluster.core.wal import Slice, encode_entries, encode_tombstone
from penstock.cluster.identity import Identity
from penstock.cluster.routing.peers import PeerHello
from penstock.delivery import events
from penstock.errors import TopicNotFound
from penstock.frontends.kafka.apis import APIS
from penstock.groups.transactions import Transaction
from penstock.log.index import IndexHead, SegmentIndex, encode_index, encode_lanes
from penstock.schedule import entries
from penstock.schemas.registry import SchemaBook
from penstock.wire import native
from penstock.wire.compression import compress
from penstock.wire.kafka.codec import encode
from penstock.wire.native import LeasedBatch, PublishOutcome
from penstock.wire.native_bodies import (
    assigned_frame,
    consumer_closed_frame,
    encode_body,
    encode_call,
    encode_error,
    error_frame,
)
from penstock.wire.records import BatchBuilder, decode_batch, encode_values
from penstock.wire.sql import Completed, ListTables, OpenSession, Refused, RunQuery, TableNames


def kafka() -> list[bytes]:
    """Every request, in its first and in its last version."""
    found = []
    for api in APIS.values():
        for version in sorted(set(api.offered)):
            head = struct.pack(">hhih", api.key, version, 1, 1) + b"x" + b"\0" * (version >= api.flexible)
            body = head + b"".join(bytes(part) for part in encode(api.request(), version))
            found.append(struct.pack(">i", len(body)) + body)
    return found


def schedules() -> list[bytes]:
    """An entry, and decisions."""
    builder = BatchBuilder()
    entries.add_entry(builder, 5, b"k", b"v", [("a", b"b")], 0, "0 9 * * *", "Europe/Berlin")
    for kind, width in entries.WIDTHS.items():
        entries.add_decision(builder, kind, range(width))
    found = []
    for record in decode_batch(bytes(builder.build(0, 0))):
        facts = record.headers[0][1] or b""
        found.append(bytes([len(facts)]) + facts + (record.value or b""))
    return found


def batches() -> list[bytes]:
    """Plain, of an idempotent producer, and packed."""
    plain = bytes(encode_values([b"one", b"two"], 1000))
    return [plain, numbered(), *(plain[:21] + bytes([0, codec]) + plain[23:] for codec in range(1, 5))]


def index() -> list[bytes]:
    """An index and lanes."""
    made = SegmentIndex()
    made.add(0, 0, 0)
    made.add(10, 5000, 7)
    head = IndexHead(
        base_offset=0,
        next_offset=20,
        segment_bytes=9000,
        max_timestamp=9,
        entries=2,
        lane_ranges=1,
        body_crc=0,
    )
    return [encode_index(head, made), encode_lanes(0, 9000, [(3, 9, 1)])]


def answers() -> list[bytes]:
    """Bodies of every kind of answer and push."""
    batch = LeasedBatch(1, 2, 1, 0, 2, bytes(encode_values([b"one", b"two"], 1000)))
    refused = encode_error(TopicNotFound(topic="orders"))
    frames = [
        native.encode_published(1, [PublishOutcome(0, 7, 5, native.WRITTEN)], 0),
        native.encode_published(1, [PublishOutcome(0, 0, 0, native.REFUSED, refused)], 1),
        native.encode_producer(1, 9),
        native.encode_received(1, [batch]),
        native.encode_delivery(3, [batch]),
        native.encode_fetched(1, 0, 2, 2, 0),
        error_frame(1, TopicNotFound(topic="orders")),
        consumer_closed_frame(3, TopicNotFound(topic="orders")),
        assigned_frame(3, [0, 1]),
    ]
    return [bytes(frame[native.HEADER_BYTES :]) for frame in frames]


def peers() -> list[bytes]:
    """A greeting, and calls."""
    greeting = encode_body(0, 1, PeerHello(nonce=b"n" * 16, proof=b"p" * 32))[native.HEADER_BYTES :]
    calls = [
        encode_call(
            1, "fetch", {"topic": "t", "partition": 0, "offset": 0, "max_bytes": 9, "journal": False}
        ),
        encode_call(1, "committed_offsets", {"topic": "t", "group": "g"}),
    ]
    return [bytes(greeting), *(bytes(call[native.HEADER_BYTES :]) for call in calls)]


def objects() -> list[bytes]:
    """Entries of a WAL, with and without their first line."""
    slices = [(Slice("orders", 0, 1, "data", 0, 5), b"bytes")]
    whole = [
        *encode_entries("nonce", slices, 1 << 20),
        *encode_entries("nonce", slices, 1100),
        encode_tombstone("nonce"),
    ]
    others = (State(), _Envelope("nonce", Drain(1)), Identity(name="a", generation="b", secret="c"))
    return [*whole, *(data.partition(b"\n")[2] for data in whole), *map(msgspec.json.encode, others)]


def sql() -> list[bytes]:
    """Requests and answers of the SQL server."""
    requests = (OpenSession({"servers": "h"}), RunQuery("select 1", 5), ListTables())
    answers = (Completed(), TableNames(["orders"]), Refused(b"x"))
    return [msgspec.msgpack.encode(message) for message in (*requests, *answers)]


def schemas() -> list[bytes]:
    """Schemas of many kinds, with a value each."""
    avro = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "tags", "type": {"type": "map", "values": "double"}},
            {"name": "lines", "type": {"type": "array", "items": "bytes"}},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "DONE"]}},
            {"name": "sum", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "next", "type": ["null", "Order"], "default": None},
            {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        ],
    }
    value = b"\x02" + b"\x02\x02a" + b"\x00" + b"\x02\x02x\x00" + b"\x02" + b"\x02\x07" + b"\x00" + b"ab"
    shape = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": 0, "multipleOf": 2},
            "note": {"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 9, "pattern": "^a+$"}]},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "minItems": 1, "uniqueItems": True},
        },
        "required": ["id"],
        "additionalProperties": False,
        "$defs": {"line": {"enum": ["a", 1, None]}},
    }
    document = b'{"id": 4, "note": "aa", "lines": ["a"]}'
    return [
        msgspec.json.encode(avro) + b"\0" + value,
        b'"string"\0\x02a',
        b'["null", {"type": "int", "logicalType": "date"}]\0\x02\x04',
        msgspec.json.encode(shape) + b"\0" + document,
        b'{"type": "string", "format": "date"}\0"2026-11-18"',
        b"true\0{}",
    ]


def main() -> None:
    """Write those that are missing."""
    corpus.FOLDER.mkdir(exist_ok=True)
    http = [bytes([number]) + b"{}" for number in range(len(HTTP))]
    http += [bytes([number]) + b'{"text": "a", "key": "k", "delay": "5m"}' for number in range(len(HTTP))]
    http += [bytes([number]) + b"limit=10&wait=5s" for number in range(len(HTTP))]
    seeds = {
        "native_frames": [*native_pieces(1), *kqueue_pieces()],
        "kafka_requests": kafka(),
        "record_batch": [*batches(), compress(4, b"x" * 100)],
        "text_lines": [*text_pieces(), b"GET / HTTP/1.1\nHost: x\n", b"\x16\x03\x01"],
        "http_body": http,
        "journal_event": [
            events.encode(event)
            for event in (
                events.Leased(1, 2, 3, 4, 1, 5, "worker"),
                events.Settled(1, 2, 3, 4, events.ACKED),
                events.GivenBack(1, 2, 3, 4, 2, 5, events.NACKED),
                events.Sought(1, 7),
                events.GroupSet(1, "g", b"{}", 0),
                events.GroupDeleted(1),
            )
        ],
        "schedule_record": schedules(),
        "stored_decision": [
            msgspec.msgpack.encode(Transaction(1, 0, 60_000, 5)),
            msgspec.msgpack.encode(Finished("app")),
        ],
        "sealed_file": [
            encode_checked(Manifest()),
            encode_checked(StoredTopic()),
            encode_checked(AccessBook()),
            encode_checked(GroupConfigBook()),
            encode_checked(SchemaBook()),
        ],
        "schema_text": schemas(),
        "kqueue_bodies": [frame[native.HEADER_BYTES :] for frame in kqueue_pieces()],
        "scram_messages": [
            b"n,,n=anna=2C=3D,r=abc\0c=biws,r=$,p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            b"y,,a=b,n=,r=x\0c=eSws,r=$,p=",
        ],
        "sql_messages": sql(),
        "index_file": index(),
        "server_answers": answers(),
        "peer_calls": peers(),
        "store_object": objects(),
        "sqs_request": [
            b'{"QueueUrl":"http://h/1/q","MessageBody":"x","MessageAttributes":'
            b'{"a":{"DataType":"Binary","BinaryValue":"AP8="}}}',
            b'{"QueueUrl":"q","Entries":[{"Id":"1","MessageBody":"x","ReceiptHandle":"h","VisibilityTimeout":1}]}',
            b"Action=SendMessage&MessageBody=x&MessageAttribute.1.Name=a&MessageAttribute.1.Value.DataType=String"
            b"&MessageAttribute.1.Value.StringValue=b&AttributeName.1=All&Tag.1.Key=k&Tag.1.Value=v",
            b"Action=SendMessageBatch&SendMessageBatchRequestEntry.1.Id=a"
            b"&SendMessageBatchRequestEntry.1.MessageBody=x",
            b"AWS4-HMAC-SHA256 Credential=k/20300101/r/sqs/aws4_request, SignedHeaders=host;x-amz-date,"
            b" Signature=0",
            b"20300101T000000Z",
            b"AQAAAAAAAQABoe7dXmIAAAAAAAAAAADxRtHlnWEt7g==",
        ],
    }
    for target, inputs in seeds.items():
        for data in inputs:
            corpus.save(target, data)


if __name__ == "__main__":
    main()
