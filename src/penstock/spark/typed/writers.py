"""The schemas that the values of a topic were written with, found by the ids in front of them."""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.schemas.formats import ParsedSchema
from penstock.schemas.mismatch import Mismatch
from penstock.wire.schema_framing import ID_BYTES, MAGIC, schema_id

Known = Callable[[int], ParsedSchema | None]  # The schema of an id.
_MAGIC: Final = bytes([MAGIC])


class Writers:
    """The schemas that values were written with."""

    def __init__(self, planned: ParsedSchema, known: Known) -> None:
        self.planned: Final[Any] = planned
        self._known = known
        self._found: dict[int, Any] = {}
        self._refused: dict[int, Mismatch] = {}

    def of(self, data: bytes) -> tuple[Any, int]:
        """The schema that a value was written with, and where the value begins."""
        number = schema_id(data)
        if number is None:
            return self.planned, 0
        found = self._found.get(number)
        if found is None:
            if number in self._refused:
                raise self._refused[number]
            try:
                found = self._found[number] = self._checked(number)
            except Mismatch as error:
                self._refused[number] = error
                raise
        return found, ID_BYTES

    def common(self, blobs: pa.Array, width: int) -> tuple[Any, list[bytes]] | None:
        """The schema that all values of a batch were written with, and the values without their frames.

        ``width`` is the length of their frames.  None: there are several schemas or frames, or tombstones.
        """
        if blobs.null_count or not len(blobs):
            return None
        if _MAGIC not in pc.unique(pc.binary_slice(blobs, 0, 1)).to_pylist():
            return self.planned, blobs.to_pylist()
        frames = pc.unique(pc.binary_slice(blobs, 0, width)).to_pylist()
        if len(frames) > 1 or len(frames[0]) < width or any(frames[0][ID_BYTES:]):
            return None
        writer, _ = self.of(frames[0])
        return writer, [each[width:] for each in blobs.to_pylist()]

    def _checked(self, number: int) -> ParsedSchema:
        found = self._known(number)
        if found is None:
            raise Mismatch("byte 1", f"there is no schema with the id {number}")
        if found.kind != self.planned.kind:
            raise Mismatch(
                "byte 1", f"schema {number} is {found.kind}, and that of the topic {self.planned.kind}"
            )
        return found
