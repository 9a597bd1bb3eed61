"""The messages to a Spark session that answers queries, on a Unix socket.

    client                                    server
    OpenSession (credentials)           ──>
                                        <──   Completed, or Refused
    RunQuery                            ──>
                                        <──   Completed, then the result in pieces; or Refused
    ListTables                          ──>
                                        <──   TableNames, or Refused
    ListColumns                         ──>
                                        <──   TableColumns, or Refused

A frame is a length (4 bytes, big-endian) and a MessagePack document.  A piece is a frame whose content is
part of the result as it is; an empty one is the end, and without it the result is not complete.  The client
closes the socket to cancel the query that is running.  One request at a time.
"""

import struct
from typing import Final, Literal

import msgspec

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024  # Longer SQL is not written by hand.
HEAD: Final = struct.Struct(">I")
END: Final = HEAD.pack(0)  # Of a result.

Form = Literal["arrow", "json", "csv"]


class OpenSession(msgspec.Struct, frozen=True, tag=True):
    """The credentials that queries run with, and perhaps the address of the broker.

    ``restricted``: the caller is on another machine, and gets what the broker lets it read and nothing else
    of this one; ``lake_tables``: also the tables of the lake that are no topic's.
    """

    options: dict[str, str]
    restricted: bool = False
    lake_tables: bool = True

    def __repr__(self) -> str:
        return "OpenSession(...)"  # It contains a key.


class RunQuery(msgspec.Struct, frozen=True, tag=True):
    """One statement; of more rows than ``rows_max`` the result has the first."""

    query: str
    rows_max: int | None = None
    form: Form = "arrow"
    seconds_max: float | None = None


class ListTables(msgspec.Struct, frozen=True, tag=True):
    pass


class ListColumns(msgspec.Struct, frozen=True, tag=True):
    table: str


class Completed(msgspec.Struct, frozen=True, tag="Done"):
    truncated: bool = False  # There are more rows than the result has.


class TableNames(msgspec.Struct, frozen=True, tag=True):
    names: list[str]


class TableColumns(msgspec.Struct, frozen=True, tag=True):
    columns: list[tuple[str, str]]


class Refused(msgspec.Struct, frozen=True, tag=True):
    error: bytes  # As on the native protocol (``native_bodies.py``).


Request = OpenSession | RunQuery | ListTables | ListColumns
Reply = Completed | TableNames | TableColumns | Refused
REQUESTS: Final = msgspec.msgpack.Decoder(Request)
REPLIES: Final = msgspec.msgpack.Decoder(Reply)


def framed(body: bytes) -> bytes:
    return HEAD.pack(len(body)) + body


def frame_of(message: Request | Reply) -> bytes:
    return framed(msgspec.msgpack.encode(message))


def length_of(head: bytes) -> int:
    """The length of a frame, from its beginning; ``ValueError`` if it is invalid."""
    length: int = HEAD.unpack(head)[0]
    if length > FRAME_BYTES_MAX:
        raise ValueError(f"a frame of {length} bytes")
    return length
