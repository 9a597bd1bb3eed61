"""Every message of every version that we offer, against ``kio``, which others made from Kafka's schemas."""

import dataclasses
import importlib
import io
import pkgutil
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import msgspec
import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from penstock.frontends.kafka.apis import APIS
from penstock.wire.kafka import messages
from penstock.wire.kafka.codec import decode, encode
from penstock.wire.kafka.fields import NO_UUID, Fixed, KafkaMessage, Part, Sized
from penstock.wire.kafka.tables import Field, fields_of

INT_BITS = {"b": 7, "h": 15, "H": 16, "i": 31, "I": 32, "q": 41}  # 41: what kio takes for a time.
RANDOM_MESSAGES = 5
MADE: dict[type, Callable[[Any], Any]] = {  # Of what kio has a type for.
    ErrorCode: lambda value: value.value,
    UUID: lambda value: value.bytes,
    timedelta: lambda value: round(value / timedelta(milliseconds=1)),
    datetime: lambda value: round(value.timestamp() * 1000),
}


def message_classes() -> list[type[KafkaMessage]]:
    for module in pkgutil.iter_modules(messages.__path__, messages.__name__ + "."):
        importlib.import_module(module.name)
    return sorted(KafkaMessage.__subclasses__(), key=lambda each: (each.KEY, each.__name__))


CASES = [
    (each, version) for each in message_classes() for version in range(each.VERSIONS[0], each.VERSIONS[1] + 1)
]


def random_part(part: type[Part], version: int, random: Random) -> Part:
    fields = [field for field in fields_of(part, version) if field.present]
    return part(**{field.name: random_value(field, version, random) for field in fields})


def random_value(field: Field, version: int, random: Random) -> Any:
    if field.tag is not None and random.random() < 0.4:
        return field.default
    if field.nullable and random.random() < 0.2:
        return None
    if field.is_list:
        return [random_value(field.element, version, random) for _ in range(random.choice((0, 1, 2, 3)))]
    if isinstance(field.kind, Fixed):
        return random_fixed(field.name, field.kind, random)
    if isinstance(field.kind, Sized):
        size = random.choice((0, 1, 5, 126, 127, 128, 300))
        return "é" * (size // 2) if field.kind.name == "text" else random.randbytes(size)
    return random_part(field.kind, version, random)


def random_fixed(name: str, kind: Fixed, random: Random) -> Any:
    if name.endswith("error_code"):
        return random.choice(list(ErrorCode)).value
    match kind.code:
        case "?":
            return random.random() < 0.5
        case "d":
            return random.uniform(-1e9, 1e9)
        case "16s":
            return random.randbytes(16)
        case code:
            value = random.getrandbits(random.randint(1, INT_BITS[code]))
            return -value if code in "bhi" and random.random() < 0.3 else value


def written(message: KafkaMessage, version: int) -> bytes:
    return b"".join(encode(message, version))


def plain(value: Any) -> Any:
    """What kio has read, as we have it."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    for kind, made in MADE.items():
        if isinstance(value, kind):
            return made(value)
    return value


def ours_named(ours: Any, name: str) -> Any:
    """A field; kio leaves the unit away, as it has types for times."""
    return getattr(ours, name if hasattr(ours, name) else f"{name}_ms")


def alike(ours: Any, theirs: Any) -> bool:
    """Whether everything that kio knows of a message is what we have."""
    if isinstance(theirs, dict):
        return all(alike(ours_named(ours, name), value) for name, value in theirs.items())
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    return bool(ours == theirs) or (theirs is None and ours == NO_UUID)


@pytest.mark.parametrize(("message", "version"), CASES, ids=lambda each: getattr(each, "__name__", each))
def test_a_message_is_to_the_byte_what_others_write_and_read(
    message: type[KafkaMessage], version: int
) -> None:
    load = load_request_schema if message.__name__.endswith("Request") else load_response_schema
    schema: Any = load(message.KEY, version)
    read, write = entity_reader(schema), entity_writer(schema)
    random = Random(f"{message.__name__} {version}")

    for _ in range(RANDOM_MESSAGES):
        ours = random_part(message, version, random)
        assert isinstance(ours, KafkaMessage)
        data = written(ours, version)
        theirs, _ = read(data, 0)
        again = io.BytesIO()
        write(again, theirs)

        assert alike(ours, plain(theirs))
        assert again.getvalue() == data
        assert decode(message, version, memoryview(data)) == ours


def test_every_message_is_one_of_an_api_that_is_offered() -> None:
    assert set(message_classes()) == {each for api in APIS.values() for each in (api.request, api.response)}


@pytest.mark.parametrize(("message", "version"), CASES, ids=lambda each: getattr(each, "__name__", each))
def test_a_message_without_anything_said_has_kafkas_defaults(
    message: type[KafkaMessage], version: int
) -> None:
    assert decode(message, version, memoryview(written(message(), version))) == message()


def test_messages_are_plain_values() -> None:
    for message in message_classes():
        assert msgspec.structs.replace(message()) == message()
