"""Kafka's frames, and what stands before a message in them.

    request     length (i32) | key (i16) | version (i16) | correlation (i32) | client id | [tags] | message
    response    length (i32) | correlation (i32) | [tags] | message

The tags are there in flexible versions, and never in the answer to ApiVersions:
a client cannot know how to read that before it has read it.
"""

from collections.abc import Callable, Sequence
from struct import Struct, error
from typing import Final, final

from penstock.errors import ProtocolViolation
from penstock.wire.kafka.codec import Buffer
from penstock.wire.kafka.lengths import passed_over

API_VERSIONS: Final = 18

HEAD_BYTES: Final = 10

# The types say that numbers come out, so that compiled code holds them in machine words.
# Key, version, correlation, length of the client id.
_unpack_head: Final[Callable[[memoryview], tuple[int, int, int, int]]] = Struct(">hhih").unpack_from
_pack_response: Final = Struct(">ii").pack
_pack_tagged_response: Final = Struct(">iib").pack


@final
class Head:
    """What stands before the message of a request."""

    __slots__ = ("at", "client_id", "correlation", "key", "version")

    def __init__(self, key: int, version: int, correlation: int, client_id: str | None, at: int) -> None:
        self.key = key
        self.version = version
        self.correlation = correlation
        self.client_id = client_id
        self.at = at  # Where the message begins, or the tags before it.


def read_head(frame: memoryview) -> Head:
    """The beginning of a request."""
    try:
        key, version, correlation, size = _unpack_head(frame)
        at = HEAD_BYTES + max(size, 0)
        client_id = None if size < 0 else str(frame[HEAD_BYTES:at], "utf-8")
    except (error, UnicodeDecodeError) as problem:
        raise ProtocolViolation(
            why="a request begins with key, version, correlation and client id"
        ) from problem
    if at > len(frame):
        raise ProtocolViolation(why="a client id is longer than its frame")
    return Head(key, version, correlation, client_id, at)


def message_begin(frame: memoryview, head: Head, flexible: bool) -> int:
    """Where the message begins, behind tags if there are some."""
    if not flexible:
        return head.at
    try:
        return passed_over(frame, head.at) if frame[head.at] else head.at + 1
    except IndexError as problem:
        raise ProtocolViolation(why="a request ends in its head") from problem


def response_frame(key: int, correlation: int, flexible: bool, parts: Sequence[Buffer]) -> list[Buffer]:
    """A whole answer, in parts."""
    size = 0
    for part in parts:
        size += len(part)
    if flexible and key != API_VERSIONS:
        return [_pack_tagged_response(size + 5, correlation, 0), *parts]
    return [_pack_response(size + 4, correlation), *parts]
