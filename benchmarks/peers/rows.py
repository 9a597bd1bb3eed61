"""Runs, put together: one row for each system in each workload, and how rows compare."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.peers.systems import System
from benchmarks.peers.workloads import Figures, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run."""

    system: System
    workload: Workload
    size: int
    figures: Figures
    foreign: float  # Cores that others used meanwhile.
    seconds: float
    server_cpu_s: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that was measured in one go."""

    measured: Sequence[Measured]
    notes: Mapping[str, str]  # What was left out or failed, and why.
    machine: Mapping[str, Any]
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """All runs of one system in one workload with messages of one size."""

    runs: Sequence[Measured]

    @property
    def system(self) -> System:
        """Whose it is."""
        return self.runs[0].system

    @property
    def workload(self) -> Workload:
        """What was done."""
        return self.runs[0].workload

    @property
    def size(self) -> int:
        """Of a message, in bytes."""
        return self.runs[0].size

    @property
    def values(self) -> list[float]:
        """Of all runs, in order."""
        return sorted(each.figures.value for each in self.runs)

    @property
    def value(self) -> float:
        """The median."""
        return median(self.values)

    @property
    def whole(self) -> bool:
        """Whether it did all of the work."""
        return all(each.figures.whole for each in self.runs)

    @property
    def messages(self) -> int:
        """Of one run."""
        return round(median(each.figures.messages for each in self.runs))

    @property
    def lost(self) -> int:
        """Confirmed and not read back, in all runs."""
        return sum(each.figures.lost for each in self.runs)

    @property
    def twice(self) -> int:
        """Read more than once, in all runs."""
        return sum(each.figures.twice for each in self.runs)

    @property
    def more(self) -> dict[str, float]:
        """The medians of what else was measured."""
        names = self.runs[0].figures.more
        return {name: median(each.figures.more[name] for each in self.runs) for name in names}

    @property
    def foreign(self) -> float:
        """The cores that others used, in the worst run."""
        return max(each.foreign for each in self.runs)

    @property
    def server_us(self) -> float:
        """What the server used of the CPU for a message: to take it and to give it back, as the work was."""
        return median(each.server_cpu_s * 1e6 / max(each.figures.messages, 1) for each in self.runs)

    def rivals(self, among: Iterable["Row"]) -> list["Row"]:
        """Those of the other side in the same work, that promise the same and did all of it."""
        return [
            other
            for other in among
            if other.workload is self.workload
            and other.size == self.size
            and other.system.promise == self.system.promise
            and other.system.ours != self.system.ours
            and not other.system.limit
            and other.whole
        ]

    def times_better(self, other: "Row") -> float:
        """More than one: better than the other."""
        mine, its = self.value, other.value
        return mine / its if self.workload.more_is_better else its / mine


def rows(measured: Iterable[Measured]) -> list[Row]:
    """By workload, size and system, in the order in which they stand."""
    keyed: dict[tuple[int, int, str], list[Measured]] = {}
    for each in measured:
        keyed.setdefault((int(each.workload.name[1:]), each.size, each.system.name), []).append(each)
    order = sorted(keyed, key=lambda key: key[:2])  # Stable: systems stay as they were measured.
    return [Row(keyed[key]) for key in order]


def best(among: Sequence[Row]) -> Row | None:
    """The one that did the work best; None if there is none."""
    whole = [row for row in among if row.whole]
    if not whole:
        return None
    return (max if whole[0].workload.more_is_better else min)(whole, key=lambda row: row.value)
