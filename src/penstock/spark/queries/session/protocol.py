"""Sends and receives messages and results (``wire/sql.py``) on a blocking socket."""

import io
from typing import Any, BinaryIO, Final, TypeVar

import msgspec

from penstock.wire.sql import END, HEAD, Reply, Request, frame_of, framed, length_of

PIECE_BYTES: Final = 256 * 1024

Kind = TypeVar("Kind")


def send(stream: BinaryIO, message: Request | Reply) -> None:
    stream.write(frame_of(message))
    stream.flush()


def receive(stream: BinaryIO, decoder: "msgspec.msgpack.Decoder[Kind]") -> Kind:
    """The next message; raises ``EOFError`` at the end of the stream, ``ValueError`` if it is not one."""
    return decoder.decode(_frame(stream))


def _frame(stream: BinaryIO) -> bytes:
    length = length_of(_exactly(stream, HEAD.size))
    return _exactly(stream, length)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


class _Pieces(io.RawIOBase):
    """Writes what it is given as pieces."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._stream.write(framed(bytes(data)))
        return len(data)


class ResultPieceWriter(io.BufferedWriter):
    """A file whose content is sent in pieces; ``finish`` marks its end."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(_Pieces(stream), PIECE_BYTES)
        self._stream = stream

    def write(self, data: Any) -> int:
        """Any number of bytes: a piece is never larger than a frame may be."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), PIECE_BYTES):
            super().write(view[start : start + PIECE_BYTES])
        return len(view)

    def finish(self) -> None:
        self.flush()
        self._stream.write(END)
        self._stream.flush()


class _Joined(io.RawIOBase):
    """Reads pieces as one stream, up to the empty one."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._piece = memoryview(b"")
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._piece and not self._ended:
            self._piece = memoryview(_frame(self._stream))
            self._ended = not self._piece
        size = min(len(buffer), len(self._piece))
        buffer[:size] = self._piece[:size]
        self._piece = self._piece[size:]
        return size


class ResultPieceReader(io.BufferedReader):
    """The content of a result; ``EOFError`` if the other side disconnects before its end."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(_Joined(stream), PIECE_BYTES)

    def finish(self) -> None:
        """Read what is left, so that the next message can be received."""
        while self.read(PIECE_BYTES):
            pass
