"""The five operations of a store.

A cluster relies on one guarantee: of all ``create`` calls for a name, by any process at any time, exactly
one succeeds, and from then on every ``get`` returns its bytes (rule 1).  Names under ``wal/`` and ``meta/``
are never deleted and created again (rule 22), so that a late request cannot succeed twice.

All methods block, may be called from several threads at once, and give up after ``REQUEST_S``.  A store does
not retry: ``StoreUnavailable`` means that the outcome is unknown, and the caller decides (rule 2).
"""

import re
from collections.abc import Iterator
from typing import Final, Protocol

from penstock.errors import InvalidValue

REQUEST_S: Final = 10  # After this time the outcome of an unanswered request is unknown.
NAME_LENGTH_MAX: Final = 512
OBJECT_BYTES_MAX: Final = (
    64 << 20
)  # Upper bound for all stores; some accept less (``Store.object_bytes_max``).
# A part begins with a letter or digit, so that no name is hidden, relative or a temporary file of a store.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]*(/[A-Za-z0-9][A-Za-z0-9._=-]*)*")


class Store(Protocol):
    url: str  # For messages: without credentials.
    object_bytes_max: int

    def create(self, name: str, data: bytes) -> bool:
        """Write ``name`` if there is no such object; False if there is one.

        When this returns, the object with this name, whether new or not, survives a power failure.
        """
        ...

    def get(self, name: str) -> bytes | None:
        """The bytes of ``name``; None if there is no such object."""
        ...

    def list(self, prefix: str) -> Iterator[str]:
        """The names that begin with ``prefix``, in any order.

        It may miss the newest names; use it only for cleaning up and to find snapshots (rule 23).
        """
        ...

    def delete(self, name: str) -> None:
        """Remove ``name``, if it exists."""
        ...

    def overwrite(self, name: str, data: bytes) -> None:
        """Write ``name``, whether or not it exists; readers see the old bytes or the new ones."""
        ...

    def close(self) -> None: ...


def check_name(name: str) -> str:
    """Return a valid name of an object; raise InvalidValue otherwise."""
    if len(name) > NAME_LENGTH_MAX or not _NAME.fullmatch(name):
        why = "use letters, digits and ._=- in parts separated by /, up to 512 characters"
        raise InvalidValue(name="object name", value=name, why=why)
    return name
