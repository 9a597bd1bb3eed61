"""Every decoder that bytes from outside reach, as a function of bytes: from a connection, or from a disk.

A target returns, or raises one of the errors that whoever calls the decoder expects (``EXPECTED``).  Anything
else is a bug: it would end a connection with a traceback, or keep a server from starting.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from penstock.broker.access.access import AccessBook
from penstock.broker.access.scram import Scram
from penstock.broker.journal import intents, ledger
from penstock.broker.kafka.group_configs import GroupConfigBook
from penstock.broker.storage.checked_json import decode_checked
from penstock.broker.topic.catalogue import Manifest, StoredTopic
from penstock.cluster.core.agreement import _Envelope
from penstock.cluster.core.metadata import State
from penstock.cluster.core.objects import wrap
from penstock.cluster.core.sealing import Beat
from penstock.cluster.core.wal import WAL, decode_entry
from penstock.cluster.identity import Identity
from penstock.cluster.routing.calls import PEER_CALLS
from penstock.cluster.routing.peers import PeerHello
from penstock.delivery import events
from penstock.errors import PenstockError
from penstock.frontends.foreign import http_refusal, is_http, spoken
from penstock.frontends.http.app import Decoding
from penstock.frontends.http.routes import ROUTES
from penstock.frontends.kafka.apis import APIS
from penstock.frontends.kqueue.session import BodyError, _fields, _text
from penstock.frontends.origins import host_name
from penstock.frontends.security.scram import ScramLogin
from penstock.frontends.sqs.receipts import read_handle
from penstock.frontends.text.commands import COMMANDS, CommandRefused, is_publish, split_command, split_words
from penstock.log.index import decode_index, decode_index_head, decode_lanes
from penstock.model.schemas import SchemaType
from penstock.operations.calls import CALLS
from penstock.schedule import entries
from penstock.schemas.formats import parse
from penstock.schemas.mismatch import Mismatch
from penstock.schemas.registry import SchemaBook
from penstock.transport.frames import LENGTH_BYTES, FrameSplitter
from penstock.wire import native
from penstock.wire.headers import SCHEDULE_KIND
from penstock.wire.kafka.codec import decode
from penstock.wire.kafka.frames import message_begin, read_head
from penstock.wire.native_bodies import (
    AckAndPublish,
    ExtendBody,
    Hello,
    NackBody,
    OpenConsumer,
    PublishMessages,
    RejectBody,
    decode_assigned,
    decode_body,
    decode_call,
    decode_consumer_closed,
    decode_error_frame,
)
from penstock.wire.records import Record, check_batch, decode_batch, read_header
from penstock.wire.sql import REPLIES, REQUESTS
from penstock.wire.sqs.query import read_form
from penstock.wire.sqs.requests import ACTIONS, BadRequestBody, decode_json, decode_query
from penstock.wire.sqs.signatures import SignedRequest, is_signed_by, read_authorization, signed_ms

EXPECTED: Final = (PenstockError, msgspec.MsgspecError, CommandRefused)
UNPACKED_BYTES_MAX: Final = 1 << 20
FRAME_BYTES_MAX: Final = 1 << 20

Target = Callable[[bytes], object]
DECODERS: Final[dict[int, Target]] = {
    native.HELLO: lambda body: decode_body(body, Hello),
    native.METADATA: lambda body: decode_body(body, str),
    native.PUBLISH: native.decode_publish,
    native.PUBLISH_MESSAGES: lambda body: decode_body(body, PublishMessages),
    native.OPEN_CONSUMER: lambda body: decode_body(body, OpenConsumer),
    native.RECEIVE: native.decode_receive,
    native.CREDIT: native.decode_credit,
    native.ACK: native.decode_ack,
    native.NACK: lambda body: decode_body(body, NackBody),
    native.REJECT: lambda body: decode_body(body, RejectBody),
    native.EXTEND: lambda body: decode_body(body, ExtendBody),
    native.COMMIT: native.decode_commit,
    native.HEARTBEAT: native.decode_consumer,
    native.CLOSE_CONSUMER: native.decode_consumer,
    native.ACK_AND_PUBLISH: lambda body: decode_body(body, AckAndPublish),
    native.FETCH: native.decode_fetch,
    native.CALL: lambda body: _native_call(body),
}


def attempt(function: Target, data: bytes) -> None:
    """Call it; only errors that are expected may come out."""
    try:
        function(data)
    except EXPECTED:
        return


def stored(function: Target, data: bytes) -> None:
    """The same where whoever reads it also expects text that is none, as on a disk."""
    with suppress(UnicodeDecodeError):
        attempt(function, data)


def _native_call(body: bytes) -> None:
    name, raw = decode_call(body)
    described = CALLS.get(name)
    if described is not None:
        decode_body(bytes(raw), described.arguments, 0)


def native_frames(data: bytes) -> None:
    """What a client of the native protocol sends."""
    for opcode, body in FrameSplitter(native.HEADER_BYTES, FRAME_BYTES_MAX).feed(data):
        decoder = DECODERS.get(opcode)
        if decoder is not None and len(body) >= 4:
            attempt(decoder, body)


def kqueue_bodies(data: bytes) -> None:
    """The body of any command of a KQueue client."""
    with suppress(BodyError):
        fields = _fields(data)
        for name in ("topic", "id", "payload"):
            _text(fields, name)


SCRAM: Final = Scram(salt=b"salt", iterations=4096, stored_key=bytes(32), server_key=bytes(32))


def scram_messages(data: bytes) -> None:
    """The two messages of a login by SCRAM, a zero byte between them; ``$`` stands for the nonce."""
    first, _, final = data.partition(b"\0")
    login = ScramLogin("SCRAM-SHA-256", lambda _: SCRAM)
    nonce = login.first(first).partition(b",")[0].removeprefix(b"r=")
    assert login.final(final.replace(b"$", nonce)) is None, "nobody knows the password"


def sql_messages(data: bytes) -> None:
    """What the SQL server of a machine and its clients send each other."""
    for decoder in (REQUESTS, REPLIES):
        stored(decoder.decode, data)


def kafka_requests(data: bytes) -> None:
    """What a client of Kafka's protocol sends; the head says in which version it is read."""
    for _, body in FrameSplitter(LENGTH_BYTES, FRAME_BYTES_MAX).feed(data):
        attempt(_kafka_request, body)


def _kafka_request(frame: bytes) -> None:
    view = memoryview(frame)
    head = read_head(view)
    api = APIS.get(head.key)
    if api is not None and api.offered[0] <= head.version <= api.offered[1]:
        begin = message_begin(view, head, head.version >= api.flexible)
        decode(api.request, head.version, view, begin)


def record_batch(data: bytes) -> None:
    """A batch of a producer, or of a log."""
    attempt(read_header, data)
    attempt(check_batch, data)
    attempt(lambda batch: decode_batch(batch, limit_bytes=UNPACKED_BYTES_MAX), data)


def text_lines(data: bytes) -> None:
    """What a client of the text protocol sends, or a browser to its port."""
    spoken(data)
    assert http_refusal("text")
    for line in data.split(b"\n"):
        is_publish(line), is_http(line)
        attempt(_text_line, line)


def _text_line(line: bytes) -> None:
    name, rest = split_command(line)
    if name in COMMANDS:
        split_words(name, COMMANDS[name], rest)


HTTP: Final = [Decoding(route) for route in ROUTES if route.body is not None or route.query is not None]


def http_body(data: bytes) -> None:
    """A query and a body, of the route that the first byte chooses."""
    if not data:
        return
    decoding = HTTP[data[0] % len(HTTP)]
    if decoding.route.query is not None:
        attempt(decoding.query, data[1:])
    if decoding.route.body is not None:
        attempt(decoding.body, data[1:])
    host_name(data[1:])


def journal_event(data: bytes) -> None:
    """A decision about deliveries."""
    stored(events.decode, data)


def schedule_record(data: bytes) -> None:
    """A record of a schedule: the facts in its first header, and the value."""
    size = data[0] if data else 0
    facts, value = data[1 : size + 1], data[size + 1 :]
    record = Record(0, 0, None, value, [(SCHEDULE_KIND, facts)], 0)
    kind = entries.kind_of(record, "schedule")
    if kind == entries.ENTRY:
        entries.entry_due_ms(record)
        entries.read_entry(record)
    else:
        entries.read_decision(record, kind)


def stored_decision(data: bytes) -> None:
    """An intent of a staged publish, and what is known of a transaction."""
    stored(intents._decoder.decode, data)
    stored(ledger._decoder.decode, data)


def sealed_file(data: bytes) -> None:
    """penstock.json, topic.json, access.json, groups.json, schemas.json."""
    for kind in (Manifest, StoredTopic, AccessBook, GroupConfigBook, SchemaBook):
        stored(lambda text, kind=kind: decode_checked(text, kind), data)  # type: ignore[misc]


def index_file(data: bytes) -> None:
    """An index, and the lanes beside it."""
    attempt(decode_index_head, data)
    attempt(decode_index, data)
    attempt(lambda text: decode_lanes(text, 0, len(text)), data)


ANSWERS: Final[tuple[Target, ...]] = (
    native.decode_published, native.decode_producer, native.decode_received, native.decode_delivery,
    native.decode_fetched, decode_error_frame, decode_consumer_closed, decode_assigned,
)  # fmt: skip


def server_answers(data: bytes) -> None:
    """The body of an answer or of a push, for a client."""
    for decoder in ANSWERS:
        attempt(decoder, data)


def peer_calls(data: bytes) -> None:
    """What a node of a cluster sends to another one: its greeting, or a call by name."""
    attempt(lambda body: decode_body(body, PeerHello), data)
    attempt(_peer_call, data)


def _peer_call(body: bytes) -> None:
    name, raw = decode_call(body)
    described = PEER_CALLS.get(name)
    if described is not None:
        decode_body(bytes(raw), described.arguments, 0)


def store_object(data: bytes) -> None:
    """An object of a cluster's store: as it is, and with the first line that makes it a valid one."""
    attempt(lambda text: decode_entry("wal", text), data)
    attempt(lambda text: decode_entry("wal", wrap(WAL, text)), data)
    for kind in (State, Beat):
        attempt(lambda text, kind=kind: msgspec.json.decode(text, type=kind), data)  # type: ignore[misc]
    for named in (_Envelope, Identity):
        stored(lambda text, named=named: msgspec.json.decode(text, type=named), data)  # type: ignore[misc]


def sqs_request(data: bytes) -> None:
    """A request of every action in both protocols, its signature, and a receipt handle."""
    for action in ACTIONS:
        with suppress(BadRequestBody):
            decode_json(action, data)
    with suppress(ValueError, BadRequestBody):
        fields = read_form(data)
        for action in ACTIONS:
            decode_query(action, fields)
    text = data.decode("latin-1")
    shown = read_authorization(text)
    if shown is not None:
        is_signed_by(bytes(32), shown, SignedRequest("POST", text, text, {b"x-amz-date": data}, data))
    signed_ms({b"x-amz-date": data})
    read_handle(bytes(16), text)


SCHEMA_TYPES: Final[tuple[SchemaType, ...]] = (
    "AVRO",
    "JSON",
)  # protoc reads .proto files in its own process.


def schema_text(data: bytes) -> None:
    """A schema to register, and behind a zero byte a value of it."""
    text, _, value = data.partition(b"\0")
    for kind in SCHEMA_TYPES:
        attempt(lambda given, kind=kind: _schema(kind, given, value), text)  # type: ignore[misc]


def _schema(kind: SchemaType, text: bytes, value: bytes) -> None:
    schema = parse(kind, text.decode("utf-8", "replace"), {})
    assert schema.unreadable(schema) == [], "it reads what was written with itself"
    assert parse(kind, schema.canonical, {}).canonical == schema.canonical
    schema.fields()
    with suppress(Mismatch):
        schema.decode(value)


TARGETS: Final[dict[str, Target]] = {
    target.__name__: partial(attempt, target)
    for target in (
        native_frames, kafka_requests, record_batch, text_lines, http_body, journal_event, schedule_record,
        stored_decision, sealed_file, index_file, server_answers, peer_calls, store_object, sqs_request,
        schema_text, kqueue_bodies, scram_messages, sql_messages,
    )
}  # fmt: skip
