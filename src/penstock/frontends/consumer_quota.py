"""Limits the consumers that a listener keeps for clients that poll.

Each topic, group and visibility timeout of a client needs a consumer, which stays open for a while after
the last request.  A key or user has a limit of its own, so that one client cannot use up those of all others;
without authentication all clients are one, and only the limit of the listener applies.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.errors import Overloaded, QuotaExceeded
from penstock.frontends.security.guarded import BrokerOperations, GuardedOperations

CONSUMERS_MAX: Final = 10_000  # Of a listener.
OWN_CONSUMERS_MAX: Final = 1000  # Of one key or user.
IDLE_S: Final = 30  # An unused consumer is closed after one to two times this.


class ConsumerQuota:
    """Counts the consumers of each client, from the moment they are about to be opened."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.counts: Counter[BrokerOperations] = Counter()

    @contextmanager
    def taken(self, owner: BrokerOperations) -> Iterator[None]:
        """Count a consumer that is opened within the block, unless that fails."""
        if isinstance(owner, GuardedOperations) and self.counts[owner] >= OWN_CONSUMERS_MAX:
            what = f"{self._what}, one for each topic, group and visibility timeout"
            who, limit = str(owner.identity), OWN_CONSUMERS_MAX
            raise QuotaExceeded(who=who, what=what, limit=limit, retry_after=2 * IDLE_S)
        if self.counts.total() >= CONSUMERS_MAX:
            raise Overloaded(what=self._what, limit=CONSUMERS_MAX)
        self.counts[owner] += 1
        try:
            yield
        except BaseException:
            self.give_back(owner)
            raise

    def give_back(self, owner: BrokerOperations) -> None:
        self.counts[owner] -= 1
        if not self.counts[owner]:
            del self.counts[owner]
