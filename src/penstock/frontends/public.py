"""Removes file paths of the server from errors before they are sent to clients."""

import re
from typing import Final

from penstock.errors import CorruptionError, DiskFull, PenstockError, StorageFailed

# The part of a path that clients know: the topic, and what of it.
_OF_A_TOPIC: Final = re.compile(r"(?:^|/)(topics/[^/]+/(?:\d+|intents)(?:/.*)?)$")


def public(error: PenstockError) -> PenstockError:
    """The error as clients may see it: paths are relative to the data directory."""
    if isinstance(error, CorruptionError | DiskFull | StorageFailed):
        return type(error)(**{**error.facts, "path": within_data(error.path)})
    return error


def within_data(path: str) -> str:
    """A path relative to the data directory."""
    found = _OF_A_TOPIC.search(path)
    return found[1] if found else "/".join(path.split("/")[-2:])
