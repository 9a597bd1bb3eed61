"""Compacts a last-value-wins log: rewrites the live entries into a new segment and drops the old ones."""

from collections.abc import Iterable

from penstock.errors import PenstockError
from penstock.log.log import Log


def compact_last_values(log: Log, batches: Iterable[bytearray]) -> bool:
    """Write the live entries into new segments and delete the old ones; False if that failed."""
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
