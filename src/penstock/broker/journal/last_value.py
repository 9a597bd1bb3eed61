"""Compacts a last-value-wins log: rewrites the live entries into a new segment and drops the old ones."""

from collections.abc import Iterable

from penstock.errors import PenstockError
from penstock.log.log import Log


class Compaction:
    """Writes the live entries of a log again, and deletes the old ones once the new ones are durable."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._first = -1  # Below it all is to be deleted; -1: nothing is.
        self._written = 0  # ``log.written`` after the entries that take its place.

    def compact(self, batches: Iterable[bytearray]) -> bool:
        """Write the live entries into new segments; False if that failed."""
        log = self._log
        try:
            log.roll()
            first = log.end
            for batch in batches:
                log.append(batch)
            self._first, self._written = first, log.written
            log.sync()
            self.tidy()
        except PenstockError:
            return False  # A full disk, most likely: what is there still says it all.
        return True

    def tidy(self) -> None:
        """Delete the old entries, if the new ones are durable; else at the next call."""
        if self._first >= 0 and self._log.durable >= self._written:
            first, self._first = self._first, -1
            self._log.delete_before(first)
