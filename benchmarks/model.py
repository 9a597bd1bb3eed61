"""What a benchmark is, and what running one gives.

    Benchmark --run(size)--> Round, Round, Round ...      (measured, limit) of the same moment
        |                         |
        '----- Target ------------'----> Result: medians, spread, ratio, verdict

A round measures the broker and, right beside it, the limit: the least that any
program in Python on this machine must pay for the same bytes (a raw append and
fdatasync, a copy of memory, a plain loop).  The ratio is taken within each
round, so that noise which hits both sides falls out.

The judge is wall time.  Where the work is the CPU's alone a round also has the
value per CPU second, which is what a quiet machine would show; ``foreign`` says
how many cores other processes used meanwhile.

A round in which the hypervisor stole time is measured again, some times at
most; the least disturbed are kept, whatever they measured, and the others are
in the JSON.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

SizeName = Literal["tiny", "quick", "full"]

ROUNDS = 3  # The least of which a median says anything.
STOLEN_CORES_MAX = 0.01  # Above it a round is disturbed: a p99 shows what hits one message in a hundred.
REPEATS = 2  # For each round, of those that were disturbed.


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One measurement and the limit measured beside it, in the benchmark's unit."""

    measured: float
    limit: float
    cpu: float | None = None  # The measured value, counted in CPU time.
    foreign: float | None = None  # Cores that others used; set by the runner ...
    stolen: float = 0.0  # ... and those that the hypervisor took.


Rounds = Generator[Round, None, None]  # Without end; closing it removes what it made.


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the measured value, or its ratio to the limit, should be."""

    value: float
    direction: Literal["at least", "at most"]
    of: Literal["measured", "ratio"] = "measured"

    def text(self, unit: str) -> str:
        """Such as ``>= 1,000,000 msg/s`` or ``<= 1.5 x limit``."""
        sign = ">=" if self.direction == "at least" else "<="
        return (
            f"{sign} {self.value:g} x limit" if self.of == "ratio" else f"{sign} {number(self.value)} {unit}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One row of the table."""

    name: str
    what: str  # A sentence for the page.
    unit: str
    limit: str  # What the limit is, in a few words.
    run: Callable[[int], Rounds]
    sizes: dict[SizeName, int]
    target: Target | None = None  # None: for information.
    grows: str = ""  # What ``size`` counts, for ``--growth``; empty: not worth a look.


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A benchmark that was run."""

    benchmark: Benchmark
    size: int
    rounds: list[Round]
    dropped: list[Round] = field(default_factory=list)  # Disturbed, and measured again.

    @property
    def measured(self) -> float:
        """The median."""
        return median(round_.measured for round_ in self.rounds)

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest and the highest."""
        values = [round_.measured for round_ in self.rounds]
        return min(values), max(values)

    @property
    def limit(self) -> float:
        """The median."""
        return median(round_.limit for round_ in self.rounds)

    @property
    def ratio(self) -> float:
        """Measured to limit, the median of the rounds' own ratios."""
        return median(_quotient(round_.measured, round_.limit) for round_ in self.rounds)

    @property
    def cpu(self) -> float | None:
        """The median per CPU second, where that was measured."""
        values = [round_.cpu for round_ in self.rounds if round_.cpu is not None]
        return median(values) if values else None

    @property
    def foreign(self) -> float | None:
        """The median of the cores that others used."""
        values = [round_.foreign for round_ in self.rounds if round_.foreign is not None]
        return median(values) if values else None

    @property
    def missed_by(self) -> float | None:
        """How far on the wrong side of the target, as a fraction of it; 0 if met, None without a target."""
        target = self.benchmark.target
        if target is None:
            return None
        return _shortfall(target, self.ratio if target.of == "ratio" else self.measured)

    @property
    def verdict(self) -> str:
        """``met``, or by how much it was missed."""
        missed = self.missed_by
        target = self.benchmark.target
        if missed is None or target is None:
            return "-"
        if missed == 0:
            return "met"
        if self.cpu is not None and target.of == "measured" and _shortfall(target, self.cpu) == 0:
            return f"missed by {missed:.0%}; met per CPU second"
        return f"missed by {missed:.0%}"


def _shortfall(target: Target, value: float) -> float:
    short = target.value - value if target.direction == "at least" else value - target.value
    return max(short / target.value, 0.0)


def _quotient(measured: float, limit: float) -> float:
    return measured / limit if limit else 0.0


def number(value: float) -> str:
    """Three figures that matter, with thousands in groups."""
    if value == 0:
        return "0"
    if abs(value) >= 999.5:
        digits = len(str(round(abs(value)))) - 3
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}"
