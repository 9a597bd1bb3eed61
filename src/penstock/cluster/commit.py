"""Group commit of a broker whose logs are committed by a cluster: no thread, and no sync.

The event loop that runs the broker also runs the cluster core.  A kick has the core pack what the logs
have; when the store has it, the host confirms it and calls the listeners.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from penstock.log.commit import SYNC_US, GroupCommit
from penstock.log.log import Log
from penstock.model.histogram import Histogram

RECENT_MAX: Final = 1000


class StoreRound:
    """Says that a round is not a sync; ``ClusterCommit`` never runs it."""

    local = False

    def __init__(self) -> None:
        self.sync_us = Histogram(SYNC_US)

    def commit(self, logs: list[Log]) -> None:
        raise NotImplementedError


class ClusterCommit(GroupCommit):
    def __init__(self, on_kick: Callable[[], None]) -> None:
        super().__init__(StoreRound())
        self.recent_us: deque[int] = deque(maxlen=RECENT_MAX)  # How long the last commits took.
        self.count = 0
        self._on_kick = on_kick

    def kick(self) -> None:
        """Have the core commit what was appended; returns at once."""
        self._on_kick()

    def mark_later(self, log: Log) -> None:
        """A round takes all logs, whether somebody waits for them or not."""
        self.mark(log)

    def clear(self) -> None:
        """A round has taken everything that was marked."""
        self._dirty.clear()

    def took(self, duration_us: int) -> None:
        """A round was confirmed after so long."""
        self.round.sync_us.note(duration_us)
        self.recent_us.append(duration_us)
        self.count += 1

    def quantiles(self) -> tuple[float, float]:
        """Median and 99th percentile of the last commits, in seconds."""
        ordered = sorted(self.recent_us) or [0]
        last = len(ordered) - 1
        return ordered[last // 2] / 1_000_000, ordered[last * 99 // 100] / 1_000_000

    def settled(self) -> None:
        """Something was confirmed, or rejected."""
        for listener in self.listeners:
            listener()
