"""What each system has to do, W1 to W10, and what is measured of it.

A workload gets a server that runs and a queue of its own, and returns its
figures.  Publishing lasts for some seconds, whatever the system; what was
confirmed is then read back, in the same server, and compared.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from benchmarks.peers.clients import Job, run
from benchmarks.peers.systems import Promise, Started, System

CHUNK = 2000
PRODUCERS = 8
SUBSCRIBERS = 10
RATE = 1000
NACK_EVERY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of it."""

    seconds: float  # Of publishing.
    backlog: int
    delayed: int
    kept: int  # Messages of W10.
    repeats: int  # Of a run that others disturbed.


FULL = Sizes(seconds=4.0, backlog=200_000, delayed=100_000, kept=1_000_000, repeats=2)
QUICK = Sizes(seconds=1.0, backlog=20_000, delayed=5_000, kept=20_000, repeats=0)


@dataclass(slots=True)
class Figures:
    """What one run of one workload gave."""

    value: float  # What systems are compared by.
    lost: int = 0
    twice: int = 0
    more: dict[str, float] = field(default_factory=dict)


class Place:
    """One system's server, for the workloads that run on it."""

    def __init__(self, system: System, server: Started, sizes: Sizes, size: int) -> None:
        self.system, self.server, self.sizes, self.size = system, server, sizes, size
        self.queue = ""

    def make(self, groups: Sequence[str] = ("one",)) -> None:
        """A new queue."""
        self.queue = f"q{uuid4().hex[:12]}"
        client = self.system.client(self.server.address)
        client.make(self.queue, groups)
        client.close()

    def job(self, work: str, **arguments: Any) -> Job:
        """For a process."""
        return Job(
            work=work, system=self.system.name, address=self.server.address, queue=self.queue,
            arguments=arguments,
        )  # fmt: skip

    def publishing(self, chunk: int, producer: int = 0, most: int = 5_000_000) -> Job:
        """For the seconds of the workload."""
        return self.job(
            "publish", producer=producer, size=self.size, seconds=self.sizes.seconds, chunk=chunk, most=most
        )

    def consuming(self, expected: int, **more: Any) -> Job:
        """With answers, where the client can answer."""
        return self.job("consume", expected=expected, ack="ack" in self.system.can, **more)

    def filled(self) -> int:
        """How many of the backlog were published within some seconds."""
        job = self.job(
            "publish", producer=0, size=self.size, seconds=4 * self.sizes.seconds,
            chunk=min(CHUNK, self.sizes.backlog), most=self.sizes.backlog,
        )  # fmt: skip
        count: int = run([job])[0]["count"]
        return count


def _published(place: Place, jobs: list[Job]) -> Figures:
    """Confirmed messages a second, and whether they are there."""
    told = run(jobs)
    count = sum(each["count"] for each in told)
    seconds = max(each["ended"] for each in told) - min(each["started"] for each in told)
    seen = run([place.consuming(count)])[0]
    return Figures(count / seconds, lost=count - seen["count"], twice=seen["twice"])


def one_by_one(place: Place) -> Figures:
    """One producer, each message confirmed before the next."""
    place.make()
    return _published(place, [place.publishing(1)])


def many(place: Place) -> Figures:
    """One producer, as quickly as its client can."""
    place.make()
    return _published(place, [place.publishing(CHUNK)])


def producers(place: Place) -> Figures:
    """Eight producers, each one by one."""
    place.make()
    return _published(place, [place.publishing(1, number) for number in range(PRODUCERS)])


def backlog(place: Place, nack_every: int = 0) -> Figures:
    """Receive what is there; each message is answered for."""
    place.make()
    count = place.filled()
    seen = run([place.consuming(count, nack_every=nack_every)])[0]
    seconds = seen["last"] - seen["first"]
    lost = count - seen["count"]
    return Figures(count / seconds, lost=lost, twice=seen["twice"], more={"seconds": seconds})


def redelivery(place: Place) -> Figures:
    """The same, but every hundredth is nacked once."""
    return backlog(place, NACK_EVERY)


def fan_out(place: Place) -> Figures:
    """One publisher, ten subscribers that each get everything; deliveries a second."""
    groups = [f"group-{number}" for number in range(SUBSCRIBERS)]
    place.make(groups)
    most = place.sizes.backlog // 10
    chunk = min(1000, most)
    publisher = place.publishing(chunk, most=most)
    readers = [place.consuming(most, group=group) for group in groups]
    told = run([publisher, *readers])
    count = told[0]["count"]
    seen = told[1:]
    seconds = max(each["last"] for each in seen) - told[0]["started"]
    lost = sum(count - each["count"] for each in seen)
    return Figures(
        sum(each["count"] for each in seen) / seconds, lost=lost, twice=sum(each["twice"] for each in seen)
    )


def latency(place: Place) -> Figures:
    """From when it should have been sent to when it was received, at 1,000 a second; ms."""
    place.make()
    seconds = 2 * place.sizes.seconds
    expected = int(RATE * seconds)
    reader = place.job("consume_late", expected=expected, ack="ack" in place.system.can)
    paced = place.job("publish_paced", size=place.size, rate=RATE, seconds=seconds)
    _, seen = run([paced, reader])
    return _late(expected, seen)


def delay(place: Place) -> Figures:
    """Messages that are due in 1 to 10 seconds: how late they come; ms."""
    place.make()
    count = place.sizes.delayed
    reader = place.job("consume_late", expected=count, ack=True)
    _, seen = run([place.job("publish_later", size=place.size, count=count), reader])
    return _late(count, seen)


def _late(expected: int, seen: dict[str, Any]) -> Figures:
    late = sorted(seen["late"]) or [float("nan")]
    percentiles = {
        f"p{each:g}": late[min(int(len(late) * each / 100), len(late) - 1)] for each in (50, 99, 99.9)
    }
    return Figures(percentiles["p99"], lost=expected - seen["count"], twice=seen["twice"], more=percentiles)


def memory(place: Place) -> Figures:
    """The server's memory with a million messages of 1 KiB that nobody reads; MB."""
    place.make()
    before = place.server.cpu_s()
    job = place.job(
        "publish",
        producer=0,
        size=1024,
        seconds=120.0,
        chunk=min(CHUNK, place.sizes.kept),
        most=place.sizes.kept,
    )
    count = run([job])[0]["count"]
    time.sleep(2.0)  # It may still be tidying up.
    cpu = place.server.cpu_s() - before
    return Figures(
        place.server.resident_mb(), more={"messages": count, "cpu us a message": cpu / count * 1e6}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One column of the comparison."""

    name: str
    what: str
    unit: str
    run: Callable[[Place], Figures]
    promises: tuple[Promise, ...]
    needs: frozenset[str] = frozenset()
    more_is_better: bool = True
    sizes: tuple[int, ...] = (100, 1024)  # Of a message, in bytes.


KEPT: tuple[Promise, ...] = ("synced", "written")
ALL: tuple[Promise, ...] = ("synced", "written", "memory")

WORKLOADS: tuple[Workload, ...] = (
    Workload(name="W1", what="publish, one by one", unit="msg/s", run=one_by_one, promises=KEPT),
    Workload(name="W2", what="publish, batched or pipelined", unit="msg/s", run=many, promises=KEPT),
    Workload(name="W3", what="publish into memory", unit="msg/s", run=many, promises=("memory",)),
    Workload(
        name="W4", what="consume a backlog, each message acked", unit="msg/s", run=backlog, promises=ALL,
        needs=frozenset({"ack"}),
    ),
    Workload(
        name="W5", what="one publisher to 10 subscribers", unit="deliveries/s", run=fan_out, promises=ALL,
        needs=frozenset({"groups"}),
    ),
    Workload(
        name="W6", what="latency at 1,000 msg/s, p99", unit="ms", run=latency, promises=ALL,
        more_is_better=False,
    ),
    Workload(name="W7", what="8 producers, one by one", unit="msg/s", run=producers, promises=KEPT),
    Workload(
        name="W8", what="drain, 1 % nacked once", unit="msg/s", run=redelivery, promises=ALL,
        needs=frozenset({"ack", "nack"}),
    ),
    Workload(
        name="W9", what="lateness of delayed messages, p99", unit="ms", run=delay, promises=ALL,
        needs=frozenset({"delay"}), more_is_better=False, sizes=(100,),
    ),
    Workload(
        name="W10", what="memory with a backlog of 1,000,000", unit="MB", run=memory, promises=ALL,
        more_is_better=False, sizes=(1024,),
    ),
)  # fmt: skip
