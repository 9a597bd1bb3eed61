"""The lease of a node on its partitions, for its broker (rule 25).

The broker answers reads and delivers messages only while the lease lasts.  To learn whether this node is
still the owner, it asks the store: then the next name of its WAL is free (``Commits.renew``).
"""

from typing import Final

from penstock.broker.steps import Arrival, Steps, Waiter
from penstock.clock import Clock
from penstock.cluster.core.commit import LEASE_MS, Commits

VERIFY_MS: Final = 20  # Between two checks whether the store has answered.


class ClusterLease:
    """Whether this node may still answer for its partitions."""

    limited = True

    def __init__(self, node: int, commits: Commits, clock: Clock) -> None:
        self.node = node
        self.waiters: dict[Waiter, None] = {}
        self._commits = commits
        self._clock = clock

    @property
    def lease_ms(self) -> int:
        return self._commits.lease_ms

    def verify(self) -> Steps[bool]:
        """Verify ownership at the store; like a publish, it waits while the store is unavailable."""
        began_ms = self._clock.steady_ms()
        # Not equal: within a millisecond the order is unknown.
        while not self._commits.ended.is_set() and self.lease_ms <= began_ms + LEASE_MS:
            self._commits.renew_soon()
            yield Arrival(self, self._clock.steady_ms() + VERIFY_MS)
        return not self._commits.ended.is_set()
