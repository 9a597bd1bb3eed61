"""Values of a small order, as the serializers of each kind of schema write them."""

import json
from base64 import b64encode
from collections.abc import Callable
from io import BytesIO
from random import Random
from typing import Any, Final

import fastavro
import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from penstock.model.schemas import NewSchema, SchemaType

KINDS: Final[tuple[SchemaType, ...]] = ("AVRO", "JSON", "PROTOBUF")
COLUMNS: Final = ("id", "customer", "total", "note")

_AVRO: Final = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "total", "type": "double"},
        {"name": "note", "type": "string"},
    ],
}
_JSON: Final = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "string"},
        "total": {"type": "number"},
        "note": {"type": "string"},
    },
    "required": list(COLUMNS),
}
_FIELDS: Final = descriptor_pb2.FieldDescriptorProto
_PROTOBUF: Final = (_FIELDS.TYPE_INT64, _FIELDS.TYPE_STRING, _FIELDS.TYPE_DOUBLE, _FIELDS.TYPE_STRING)


def schema_of(kind: SchemaType) -> NewSchema:
    """The schema, as it is registered."""
    if kind == "PROTOBUF":
        return NewSchema(type=kind, schema=b64encode(_file().SerializeToString()).decode())
    return NewSchema(type=kind, schema=json.dumps(_AVRO if kind == "AVRO" else _JSON))


def serializer(kind: SchemaType, schema_id: int) -> Callable[[int], bytes]:
    """What makes the value of a number, about 80 bytes of which a half are random."""
    random = Random(schema_id)
    encode, head = _encoder(kind), b"\0" + schema_id.to_bytes(4, "big")

    def value(number: int) -> bytes:
        note = random.randbytes(20).hex()
        order = {"id": number, "customer": f"customer {number % 1000}", "total": number / 8, "note": note}
        return head + encode(order)

    return value


def _encoder(kind: SchemaType) -> Callable[[dict[str, Any]], bytes]:
    if kind == "JSON":
        return msgspec.json.encode
    if kind == "PROTOBUF":
        pool = descriptor_pool.DescriptorPool()
        pool.Add(_file())
        message: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))
        return lambda order: b"\0" + message(**order).SerializeToString()
    parsed = fastavro.parse_schema(_AVRO)

    def avro(order: dict[str, Any]) -> bytes:
        out = BytesIO()
        fastavro.schemaless_writer(out, parsed, order)
        return out.getvalue()

    return avro


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    message = file.message_type.add(name="Order")
    for number, (name, kind) in enumerate(zip(COLUMNS, _PROTOBUF, strict=True), 1):
        message.field.add(name=name, number=number, type=kind, label=_FIELDS.LABEL_OPTIONAL)
    return file
