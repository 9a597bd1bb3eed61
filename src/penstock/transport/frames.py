"""Splits a byte stream into frames, for every protocol whose frames begin with their length.

    native, KQueue   opcode (u8) | length (u32) | body       header_bytes = 5
    Kafka            length (u32) | body                     header_bytes = 4

The length is the last field of the header.  It is checked before any byte of the body is kept.

Cost: one slice of the received bytes for each frame; a frame that arrives in pieces is joined once.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, final

from penstock.errors import FrameTooLarge, PenstockError

LENGTH_BYTES: Final = 4

Frame = tuple[int, bytes]  # The first byte of the header (the opcode, if the protocol has one) and the body.

_FRAME: Final = Struct(">BI")

# The type says that a number comes out, so that compiled code holds it in a machine word.
_unpack_length: Final[Callable[[bytes, int], tuple[int]]] = Struct(">I").unpack_from


@final
class FrameSplitter:
    """The frames of one connection; they may arrive in any number of pieces.

    A frame that is too long ends the stream: ``refusal`` is set, the frames before it are returned, and
    nothing after it is kept.
    """

    def __init__(self, header_bytes: int, frame_bytes_max: int) -> None:
        self.refusal: PenstockError | None = None
        self.buffered = 0  # Bytes of the incomplete frame.
        self.limit = frame_bytes_max  # Raised after the login.
        self._header_bytes = header_bytes
        self._pieces: list[bytes] = []
        self._size = 0  # Of the incomplete frame, header included; 0 while its header is incomplete.

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete with these bytes."""
        frames: list[Frame] = []
        if self.refusal is not None:
            return frames
        header = self._header_bytes
        at = self._complete(data, frames) if self.buffered else 0
        end = len(data)
        while end - at >= header:
            length = _unpack_length(data, at + header - LENGTH_BYTES)[0]
            if length > self.limit:
                self._refuse(length)
                return frames
            size = header + length
            if size > end - at:
                self._size = size
                break
            frames.append((data[at], data[at + header : at + size]))
            at += size
        if at < end:
            self._keep(data[at:] if at else data)
        return frames

    def forget(self) -> None:
        self._pieces = []
        self.buffered = 0
        self._size = 0

    def _complete(self, data: bytes, frames: list[Frame]) -> int:
        """Continue the incomplete frame; returns where the next one begins, or the end of the data."""
        header, taken = self._header_bytes, 0
        if not self._size:
            if self.buffered + len(data) < header:
                self._keep(data)
                return len(data)
            taken = header - self.buffered
            self._keep(data[:taken])
            self._pieces = [b"".join(self._pieces)]
            length = _unpack_length(self._pieces[0], header - LENGTH_BYTES)[0]
            if length > self.limit:
                self._refuse(length)
                return len(data)
            self._size = header + length
        missing = self._size - self.buffered
        if missing > len(data) - taken:
            self._keep(data[taken:] if taken else data)
            return len(data)
        self._keep(data[taken : taken + missing])
        first = self._pieces[0]
        self._pieces[0] = first[header:]  # Cutting the header off the joined frame would copy it once more.
        frames.append((first[0], b"".join(self._pieces)))
        self.forget()
        return taken + missing

    def _keep(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.buffered += len(piece)

    def _refuse(self, length: int) -> None:
        self.refusal = FrameTooLarge(size_bytes=length, limit_bytes=self.limit)
        self.forget()


def plain_frame(opcode: int, body: bytes) -> bytes:
    """A frame of the native protocol or KQueue's."""
    return _FRAME.pack(opcode, len(body)) + body
