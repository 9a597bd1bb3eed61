"""Converts messages, settings and descriptions between protobuf and the broker's types.

``fill`` copies the fields of a description by name, so a field that both have
needs no code; ``tests/frontends/grpc/test_proto.py`` checks that none is missing.
``add_leases`` is the inner loop of every receive.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message as ProtobufMessage

from penstock.client.consume.records import records_of
from penstock.config.broker import GroupOptions, TopicOptions
from penstock.errors import InvalidValue
from penstock.grpc import penstock_pb2 as pb
from penstock.model.message import Message, Receipt, StoredMessage, own_headers
from penstock.types import LANE_NAMES
from penstock.wire.native import LeasedBatch, Run
from penstock.wire.records import Record, lane_of

NO_LIMIT: Final = -1  # Of settings that may be None.
NORMAL: Final = 0
VALUE: Final = pb.Message.VALUE_FIELD_NUMBER
_UNLIMITED: Final = ("retention_ms", "retention_bytes", "ttl_ms", "depth_max")


def moment(time_ms: int) -> datetime:
    """A time in the broker's type, because a number could be an offset."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        why = "it is not a time in milliseconds since 1970"
        raise InvalidValue(name="time_ms", value=time_ms, why=why) from None


# In.


def message_of(given: pb.Message) -> Message:
    """A message to publish; the broker checks it."""
    if _is_bare(given):
        return Message(given.value)
    if given.tombstone and given.value:
        raise InvalidValue(name="tombstone", value=True, why="a tombstone has no value")
    return Message(
        None if given.tombstone else given.value,
        key=given.key if given.HasField("key") else None,
        headers=dict(given.headers) or None,
        priority=given.priority or NORMAL,
        ttl=given.ttl_ms / 1000 if given.HasField("ttl_ms") else None,
        delay=given.delay_ms / 1000 if given.HasField("delay_ms") else None,
        deliver_at=moment(given.deliver_at_ms) if given.HasField("deliver_at_ms") else None,
        dedup_id=given.dedup_id or None,
        partition=given.partition if given.HasField("partition") else None,
    )


def messages_of(given: pb.PublishBatchRequest) -> list[Message | bytes]:
    """The messages of a batch; plain values stay bytes."""
    if given.values:
        if given.messages:
            raise InvalidValue(
                name="values", value=len(given.values), why="give messages or values, not both"
            )
        return list(given.values)
    return [each.value if _is_bare(each) else message_of(each) for each in given.messages]


def _is_bare(given: pb.Message) -> bool:
    fields = given.ListFields()
    return len(fields) == 1 and fields[0][0].number == VALUE


def topic_options(given: pb.TopicSettings) -> TopicOptions:
    """The settings of a request, by the names of the Python API."""
    options: dict[str, Any] = {}
    for field, value in given.ListFields():
        unlimited = value == NO_LIMIT and field.name in _UNLIMITED
        options[field.name.removesuffix("_ms")] = None if unlimited else _setting(field.name, value)
    return cast("TopicOptions", options)


def group_options(given: pb.GroupSettings) -> GroupOptions:
    options = {
        field.name.removesuffix("_ms"): _setting(field.name, value) for field, value in given.ListFields()
    }
    start = options.get("start")
    if isinstance(start, str) and start.isascii() and start.isdigit():
        options["start"] = int(start)
    return cast("GroupOptions", options)


def _setting(name: str, value: Any) -> Any:
    if name.endswith("_ms"):
        return value / 1000  # A duration, in seconds.
    return dict(value) if isinstance(value, Mapping) else value


def run_of(given: pb.LeaseRange) -> Run:
    return given.partition, given.lease, given.start, given.end


# Out.


def add_leases(received: pb.Received, batches: Iterable[LeasedBatch], consumer: str = "") -> None:
    """Add leased messages to a response."""
    for batch in batches:
        leased = received.leases.add()
        leased.attempt = batch.attempt
        where = leased.range
        where.partition, where.lease, where.start, where.end = (
            batch.partition, batch.lease, batch.start, batch.end
        )  # fmt: skip
        if consumer:
            where.consumer = consumer
        add, partition = leased.messages.add, batch.partition
        for record in batch.records or records_of(batch):
            _fill_stored(add(), partition, record)


def _fill_stored(stored: pb.StoredMessage, partition: int, record: Record) -> None:
    stored.offset = record.offset
    stored.timestamp_ms = record.timestamp
    stored.partition = partition
    value = record.value
    if value is None:
        stored.tombstone = True
    else:
        stored.value = value
    if record.key is not None:
        stored.key = record.key
    if record.headers:
        for name, data in own_headers(record.headers, record.attributes):
            # The last one wins where a name repeats; protobuf has no text that is not UTF-8.
            stored.headers[_whole(name)] = "" if data is None else data.decode("utf-8", "backslashreplace")
    if record.attributes:
        lane = lane_of(record.attributes)
        if lane != NORMAL:
            stored.priority = LANE_NAMES[lane]


def _whole(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def add_stored(found: Any, messages: Iterable[StoredMessage]) -> None:
    """Add stored messages, with their topic, to a response."""
    for message in messages:
        fill_message(found.add(), message)


def fill_message(stored: pb.StoredMessage, message: StoredMessage) -> None:
    _fill_stored(stored, message.partition, message.record)
    stored.topic = message.topic


def receipt(made: Receipt) -> pb.Receipt:
    return pb.Receipt(
        id=made.id,
        partition=made.partition,
        offset=-1 if made.offset is None else made.offset,
        timestamp_ms=made.timestamp,
        schedule_id=made.schedule_id or "",
        duplicate=made.duplicate,
    )


def fill(made: ProtobufMessage, described: Any) -> None:
    """Copy the fields of a description; None stays unset, or becomes ``NO_LIMIT`` in settings."""
    for field in made.DESCRIPTOR.fields:
        value = getattr(described, field.name)
        if value is None:
            if field.name in _UNLIMITED:
                setattr(made, field.name, NO_LIMIT)
        elif isinstance(value, Mapping):
            getattr(made, field.name).update({_whole(name): _whole(item) for name, item in value.items()})
        elif field.is_repeated:
            _fill_repeated(getattr(made, field.name), field.type, value)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            getattr(made, field.name).SetInParent()
            fill(getattr(made, field.name), value)
        else:
            setattr(made, field.name, _whole(value) if isinstance(value, str) else value)


def _fill_repeated(made: Any, kind: int, values: Iterable[Any]) -> None:
    if kind == FieldDescriptor.TYPE_MESSAGE:
        for value in values:
            fill(made.add(), value)
    else:
        made.extend(values)
