"""Which cluster a store belongs to: the object ``cluster.json``, written once by its first node.

name          given by ``--cluster``; another name in the same place is a mistake of the operator
generation    in the name of every object (rule 24)
secret        what nodes prove to each other before they accept requests; whoever can write to the store
              can change every message, so it is no less safe there
format        of the objects; a node refuses one that it does not know
"""

import secrets
from typing import Final

import msgspec

from penstock.errors import ClusterMismatch, ClusterTooNew, CorruptionError
from penstock.store.base import Store

NAME: Final = "cluster.json"
FORMAT: Final = 1
SECRET_BYTES: Final = 32
GENERATION_BYTES: Final = 4


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    generation: str
    secret: str
    format: int = FORMAT

    @property
    def prefix(self) -> str:
        """In front of the name of every object of this cluster."""
        return f"{self.generation}/"


def found_or_join(store: Store, name: str) -> Identity:
    """The identity of the cluster in a store; the first node makes it."""
    while True:
        data = store.get(NAME)
        if data is not None:
            return _checked(store.url, name, data)
        made = Identity(
            name=name,
            generation=secrets.token_hex(GENERATION_BYTES),
            secret=secrets.token_hex(SECRET_BYTES),
        )
        store.create(NAME, msgspec.json.encode(made))  # Whoever comes first: the next read decides.


def _checked(url: str, name: str, data: bytes) -> Identity:
    try:
        found = msgspec.json.decode(data, type=Identity)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptionError(path=f"{url}/{NAME}", position=0, why=str(error)) from None
    if found.format > FORMAT:
        raise ClusterTooNew(cluster=found.name, format=found.format, known=FORMAT)
    if found.name != name:
        raise ClusterMismatch(store=url, found=found.name, wanted=name)
    return found
