"""Markers of a directory that is being converted into a cluster or back, and of a cluster that has ended.

``conversion.json`` is in a data directory from before the first upload until the old files have been moved
away.  While it exists, neither a plain server nor a node uses the directory: only the store knows whether
the cluster already has the messages, and ``penstock cluster convert`` asks it.
"""

import msgspec

from penstock.broker.storage.checked_json import decode_checked, encode_checked
from penstock.broker.topic.catalogue import CONVERSION
from penstock.cluster.core.metadata import State
from penstock.errors import ClusterLeft, CorruptionError, InvalidValue
from penstock.log.files import Files


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """The destination of a directory's contents."""

    store: str  # Its URL, without credentials.
    cluster: str
    generation: str  # In the names of the objects.


def read_marker(files: Files, directory: str) -> Conversion | None:
    path = f"{directory}/{CONVERSION}"
    if not files.exists(path):
        return None
    try:
        return decode_checked(files.read_file(path), Conversion)
    except (msgspec.MsgspecError, UnicodeDecodeError, InvalidValue) as error:
        raise CorruptionError(path=path, position=0, why=str(error)) from None


def write_marker(files: Files, directory: str, marker: Conversion) -> None:
    files.write_file(f"{directory}/{CONVERSION}", encode_checked(marker))


def check_left(state: State, cluster: str) -> None:
    """Refuse to start a node of a cluster that was turned back into a plain data directory."""
    if state.left:
        raise ClusterLeft(cluster=cluster, node=state.members[state.left].node)
