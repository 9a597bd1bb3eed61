"""What clients have seen, and whether one log for each partition can explain it.

acknowledged messages exist once, at their offset       rejected messages do not exist
reads are prefixes of one log, and show everything that was acknowledged more than a lease ago
messages of a producer are in order
settled messages are not delivered again                every message is settled or can be delivered
a commit of a former group coordinator never replaces one of its successor
"""

from tests.cluster.core.virtual import Violation

from penstock.cluster.core.commit import LEASE_MS
from penstock.cluster.core.metadata import Key

LEASE_S = LEASE_MS / 1000


class History:
    def __init__(self) -> None:
        self.acknowledged: dict[int, tuple[Key, int]] = {}
        self.rejected: set[int] = set()
        self.unknown: set[int] = set()  # The producer has given up, so they may come at any time.
        self.settled: set[tuple[Key, int]] = set()
        self.settling: set[tuple[Key, int]] = set()  # Somebody has tried to.
        self._owners: dict[tuple[Key, int], str] = {}
        self._read: dict[tuple[Key, int], int] = {}
        self._epochs: dict[int, int] = {-1: 0}  # Of the coordinators that have sent commits, by number.
        self._stored: dict[tuple[str, Key, str], int] = {}  # The latest of these, by who has stored it.
        self._ends: dict[Key, list[tuple[float, int]]] = {}  # When the log was known to be so long.

    def read(self, key: Key, offset: int, message: int) -> None:
        """A client was shown a message."""
        before = self._read.setdefault((key, offset), message)
        if before != message:
            raise Violation(f"{key} had {before} at {offset}, and now {message}")

    def deliver(self, key: Key, offset: int, message: int) -> None:
        if (key, offset) in self.settled:
            raise Violation(f"{key}: {message} at {offset} was settled, and is delivered again")
        self.read(key, offset, message)

    def read_end(self, key: Key, end: int, now_s: float) -> None:
        """A reader was told that the log ends there; a former owner may say so until its lease ends."""
        acknowledged = self._ends.get(key, [])
        while len(acknowledged) > 1 and acknowledged[1][0] <= now_s - LEASE_S:
            acknowledged.pop(0)
        if acknowledged and acknowledged[0][0] <= now_s - LEASE_S and end < acknowledged[0][1]:
            raise Violation(f"{key} ends at {end} for a reader, but at {acknowledged[0][1]} a lease ago")

    def acknowledge(self, key: Key, offset: int, message: int, now_s: float) -> None:
        self.read(key, offset, message)
        self.acknowledged[message] = key, offset
        ends = self._ends.setdefault(key, [])
        if not ends or offset >= ends[-1][1]:
            ends.append((now_s, offset + 1))

    def commit(self, key: Key, epoch: int, incarnation: str) -> None:
        """An incarnation has committed something to a partition."""
        if self._owners.setdefault((key, epoch), incarnation) != incarnation:
            raise Violation(f"{key} has two owners in epoch {epoch}")

    def settle(self, key: Key, offset: int, settled: int) -> None:
        if settled != offset:
            raise Violation(f"{key}: {settled} was settled, when {offset} was meant")
        self.settled.add((key, offset))

    def send_commit(self, epoch: int) -> int:
        """A group coordinator sends a commit to be stored, with this number."""
        self._epochs[len(self._epochs)] = epoch
        return len(self._epochs) - 1

    def store_commit(self, owner: str, key: Key, group: str, number: int) -> None:
        """An owner has stored a commit, and has this one now."""
        epoch = self._epochs[number]
        if epoch < self._stored.get((owner, key, group), 0):
            raise Violation(f"{key}: {group} has a commit of a former coordinator again, of epoch {epoch}")
        self._stored[owner, key, group] = epoch

    def check_commit(self, key: Key, group: str, number: int) -> None:
        latest = max(
            (epoch for (_, *of), epoch in self._stored.items() if of == [key, group]),
            default=0,
        )
        if self._epochs[number] < latest:
            raise Violation(f"{key}: {group} has lost a commit of epoch {latest}")

    def check(self, key: Key, log: list[int], settled: set[int]) -> None:
        """Compare with the log of a partition at the end."""
        if len(set(log)) != len(log):
            raise Violation(f"{key}: a message is there twice")
        if self.rejected & set(log):
            raise Violation(f"{key}: a rejected message is there: {self.rejected & set(log)}")
        last: dict[int, int] = {}
        for message in log:
            producer = message // 10**6
            if message in self.unknown:
                continue
            if last.get(producer, -1) > message:
                raise Violation(f"{key}: {message} is behind {last[producer]}")
            last[producer] = message
        for (other, offset), message in self._read.items():
            if other == key and (offset >= len(log) or log[offset] != message):
                found = log[offset] if offset < len(log) else "nothing"
                raise Violation(f"{key}: {message} was seen at {offset}, and {found} is there")
        lost = {offset for other, offset in self.settled if other == key} - settled
        unasked = settled - {offset for other, offset in self.settling if other == key}
        if unasked:
            raise Violation(f"{key}: nobody has settled {sorted(unasked)}")
        if lost:
            raise Violation(f"{key}: what was settled is not: {sorted(lost)}")
