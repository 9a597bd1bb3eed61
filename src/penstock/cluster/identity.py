"""Which cluster a store belongs to: the object ``cluster.json``, written once by its first node.

name          given by ``--cluster``; another name at the same place is an operator error
generation    in the name of every object (rule 24)
secret        proved by nodes to each other before they accept requests; anyone who can write to the
              store can change every message, so it is no less safe there
format        of the objects; a node refuses an unknown one
cluster_id    the id for Kafka clients: that of the former single server, otherwise the generation
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
    cluster_id: str = ""

    @property
    def prefix(self) -> str:
        """In front of the name of every object of this cluster."""
        return f"{self.generation}/"


def new_identity(name: str, cluster_id: str = "") -> Identity:
    return Identity(
        name=name,
        generation=secrets.token_hex(GENERATION_BYTES),
        secret=secrets.token_hex(SECRET_BYTES),
        cluster_id=cluster_id,
    )


def found_or_join(store: Store, name: str) -> Identity:
    """The identity of the cluster in a store; the first node creates it."""
    found = found_in(store, name)
    return found if found is not None else created(store, new_identity(name))


def found_in(store: Store, name: str) -> Identity | None:
    """The identity of the cluster in a store, which must have this name; None if there is none yet."""
    data = store.get(NAME)
    return None if data is None else _checked(store.url, name, data)


def created(store: Store, made: Identity) -> Identity:
    """Found a cluster; return the identity that is then in the store: another process may have been first."""
    while True:
        store.create(NAME, msgspec.json.encode(made))
        found = found_in(store, made.name)
        if found is not None:
            return found


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
