"""The messages between ``penstock sql`` and a warm Spark session, on a Unix socket.

    client                                    server
    OpenSession (address, credentials)  ──>
                                        <──   Done, or Refused
    RunQuery                            ──>
                                        <──   Done, then the result as an Arrow IPC stream; or Refused
    ListTables                          ──>
                                        <──   TableNames, or Refused
    ListColumns                         ──>
                                        <──   TableColumns, or Refused

A frame is a length (4 bytes, big-endian) and a MessagePack document.  The client closes the socket to cancel
the query that is running.  One request at a time; no I/O beyond the given stream.
"""

import os
import socket
import struct
from typing import BinaryIO, Final, TypeVar

import msgspec

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024  # Longer SQL is not written by hand.
_LENGTH: Final = struct.Struct(">I")
_CREDENTIALS: Final = struct.Struct("3i")  # Of a peer: process, user, group.

Kind = TypeVar("Kind")


class OpenSession(msgspec.Struct, frozen=True, tag=True):
    """Whose permissions the queries have: the address and the credentials of the caller."""

    options: dict[str, str]

    def __repr__(self) -> str:
        return "OpenSession(...)"  # It contains a key.


class RunQuery(msgspec.Struct, frozen=True, tag=True):
    query: str
    rows_max: int | None = None


class ListTables(msgspec.Struct, frozen=True, tag=True):
    pass


class ListColumns(msgspec.Struct, frozen=True, tag=True):
    table: str


class Done(msgspec.Struct, frozen=True, tag=True):
    pass


class TableNames(msgspec.Struct, frozen=True, tag=True):
    names: list[str]


class TableColumns(msgspec.Struct, frozen=True, tag=True):
    columns: list[tuple[str, str]]


class Refused(msgspec.Struct, frozen=True, tag=True):
    error: bytes  # As on the native protocol (``wire/native_bodies.py``).


Request = OpenSession | RunQuery | ListTables | ListColumns
Reply = Done | TableNames | TableColumns | Refused
REQUESTS: Final = msgspec.msgpack.Decoder(Request)
REPLIES: Final = msgspec.msgpack.Decoder(Reply)


def is_same_user(connection: socket.socket) -> bool:
    """Whether the process at the other end of a Unix socket runs as the same user."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(found)
    return bool(user == os.getuid())


def send(stream: BinaryIO, message: Request | Reply) -> None:
    body = msgspec.msgpack.encode(message)
    stream.write(_LENGTH.pack(len(body)) + body)
    stream.flush()


def receive(stream: BinaryIO, decoder: "msgspec.msgpack.Decoder[Kind]") -> Kind:
    """The next message; raises ``EOFError`` at the end of the stream, ``ValueError`` if it is not one."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    if length > FRAME_BYTES_MAX:
        raise ValueError(f"a frame of {length} bytes")
    body = stream.read(length)
    if len(body) < length:
        raise EOFError
    return decoder.decode(body)
