"""Calls an operation by its name: its arguments are checked and encoded, its answer is decoded."""

from typing import Any

import msgspec

from penstock.client.session import ClientSession
from penstock.errors import InvalidValue
from penstock.operations.calls import CALLS
from penstock.operations.codec import decode_answer, plain
from penstock.types import missing_topic
from penstock.wire.native_bodies import encode_call


class Caller:
    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def _call(self, operation: str, **arguments: Any) -> Any:
        """The answer of an operation; its arguments are checked here, where an error can name them."""
        encoded = checked_arguments(operation, arguments)
        retry = CALLS[operation].retry
        body = await self.session.call(
            operation,
            lambda correlation: encode_call(correlation, operation, encoded),
            changes=retry.changes,
            repeat=retry.repeats,
            wait_ms=CALLS[operation].wait_ms,
            done=retry.done,
        )
        return decode_answer(operation, memoryview(body)[4:]) if body else None


def checked_arguments(operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call as values that msgpack can encode; an error names the argument that is not."""
    encoded = {name: encodable(name, value) for name, value in arguments.items()}
    for name in ("topic", "name"):
        if name in encoded and not isinstance(encoded[name], str | None) and operation != "create_topic":
            raise missing_topic(encoded[name])
    for name, field in CALLS[operation].arguments.__annotations__.items():
        if name in encoded and not isinstance(encoded[name], msgspec.Struct):
            try:
                msgspec.convert(encoded[name], field)
            except msgspec.ValidationError as problem:
                raise InvalidValue(name=name, value=encoded[name], why=str(problem)) from None
    return encoded


def encodable(name: str, value: Any) -> Any:
    """An argument as msgpack has it."""
    simple = plain(value)
    try:
        msgspec.msgpack.encode(simple)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise InvalidValue(name=name, value=value, why="it cannot be sent to a server") from None
    return simple
