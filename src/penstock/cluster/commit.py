"""Group commit of a broker whose logs are committed by a cluster: no thread, and no sync.

The event loop that runs the broker also runs the cluster core.  A kick makes the core pack the new bytes of
all logs; when they are in the store, the host confirms them and calls the listeners.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from penstock.log.commit import SYNC_US, GroupCommit
from penstock.log.log import Log
from penstock.model.histogram import Histogram

RECENT_MAX: Final = 1000


class StoreRound:
    """Marks that rounds are not syncs; ``ClusterCommit`` never runs it."""

    local = False

    def __init__(self) -> None:
        self.sync_us = Histogram(SYNC_US)

    def commit(self, logs: list[Log]) -> None:
        raise NotImplementedError


class ClusterCommit(GroupCommit):
    def __init__(self, on_kick: Callable[[], None]) -> None:
        super().__init__(StoreRound())
        self.recent_us: deque[int] = deque(maxlen=RECENT_MAX)  # Durations of the last commits.
        self.count = 0
        self._on_kick = on_kick

    def kick(self) -> None:
        """Make the core commit appended bytes; returns at once."""
        self._on_kick()

    def mark_later(self, log: Log) -> None:
        """Nothing to mark: a round takes all logs, whether or not an operation waits for them."""
        self.mark(log)

    def clear(self) -> None:
        """A round has taken everything that was marked."""
        self._dirty.clear()

    def took(self, duration_us: int) -> None:
        """Record the duration of a confirmed round."""
        self.round.sync_us.note(duration_us)
        self.recent_us.append(duration_us)
        self.count += 1

    def quantiles(self) -> tuple[float, float]:
        """Median and 99th percentile of the last commits, in seconds."""
        ordered = sorted(self.recent_us) or [0]
        last = len(ordered) - 1
        return ordered[last // 2] / 1_000_000, ordered[last * 99 // 100] / 1_000_000

    def settled(self) -> None:
        """Notify waiters that a round was confirmed or rejected."""
        for listener in self.listeners:
            listener()
