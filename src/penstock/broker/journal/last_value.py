"""Compacts a last-value-wins log: rewrites the live entries into a new segment and drops the old ones."""

from collections.abc import Iterable

from penstock.errors import PenstockError
from penstock.log.log import Log


def retold(log: Log, batches: Iterable[bytearray]) -> bool:
    """Write all that counts into new segments and let the others go; False if that could not be done."""
    try:
        log.roll()
        first = log.end
        for batch in batches:
            log.append(batch)
        log.sync()
        log.delete_before(first)
    except PenstockError:
        return False  # A full disk, most likely: what is there still says it all.
    return True
