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

from benchmarks.peers import clients
from benchmarks.peers.clients import Job
from benchmarks.peers.servers import Started
from benchmarks.peers.systems import Promise, System

PRODUCERS = 8
SUBSCRIBERS = 10
RATE = 1000
NACK_EVERY = 100
FILLERS = 2  # Producers of a large backlog; there are two cores.
SETTLE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of it."""

    seconds: float  # Of publishing; at most, of filling a backlog.
    chunk: int  # Messages that are begun together.
    latency_s: float
    backlog: int
    fan_out: int
    delayed: int
    delay_s: int  # At most.
    kept: int  # Messages of W10,
    kept_s: float  # and how long they may take.
    read_back: int  # Of those.


FULL = Sizes(
    seconds=1.0, chunk=1000, latency_s=2.0, backlog=300_000, fan_out=30_000, delayed=100_000, delay_s=10,
    kept=1_000_000, kept_s=60.0, read_back=50_000,
)  # fmt: skip
QUICK = Sizes(
    seconds=0.3, chunk=500, latency_s=0.5, backlog=20_000, fan_out=2_000, delayed=1_000, delay_s=2,
    kept=20_000, kept_s=2.0, read_back=5_000,
)  # fmt: skip
TINY = Sizes(
    seconds=0.02, chunk=50, latency_s=0.05, backlog=200, fan_out=50, delayed=100, delay_s=1,
    kept=200, kept_s=1.0, read_back=200,
)  # fmt: skip


@dataclass(slots=True)
class Figures:
    """What one run of one workload gave."""

    value: float  # What systems are compared by.
    messages: int
    lost: int = 0
    twice: int = 0
    whole: bool = True  # Else it did only a part of the work in its time, and is not compared.
    more: dict[str, float] = field(default_factory=dict)


class Place:
    """One system's server, for a workload that runs on it."""

    def __init__(self, system: System, server: Started, sizes: Sizes, size: int) -> None:
        self.system, self.server, self.sizes, self.size = system, server, sizes, size
        self.queue = ""
        self.clients_cpu_s = 0.0

    def make(self, groups: Sequence[str] = ("one",)) -> None:
        """A new queue."""
        self.queue = f"q{uuid4().hex[:12]}"
        client = self.system.client(self.server.address)
        client.make(self.queue, groups)
        client.close()

    def run(self, *jobs: Job) -> list[dict[str, Any]]:
        """All at once, in processes of their own."""
        told = clients.run(jobs)
        self.clients_cpu_s += sum(each["cpu"] for each in told)
        return told

    def _job(self, work: str, group: str = "", **arguments: Any) -> Job:
        return Job(
            work=work, adapter=self.system.adapter, mode=self.system.mode, address=self.server.address,
            queue=self.queue, group=group,
            arguments={"size": self.size, **arguments},
        )  # fmt: skip

    def publishing(
        self, chunk: int, producer: int = 0, most: int = 5_000_000, seconds: float | None = None
    ) -> Job:
        """For the seconds of the workload."""
        seconds = self.sizes.seconds if seconds is None else seconds
        return self._job("publish", producer=producer, seconds=seconds, chunk=min(chunk, most), most=most)

    def pacing(self) -> Job:
        """At an even rate."""
        return self._job("publish_paced", rate=RATE, seconds=self.sizes.latency_s)

    def delaying(self) -> Job:
        """Each with a delay."""
        return self._job(
            "publish_later",
            count=self.sizes.delayed,
            longest=self.sizes.delay_s,
            seconds=15 * self.sizes.seconds,
        )

    def consuming(self, expected: int = 0, group: str = "one", nack_every: int = 0) -> Job:
        """With answers, where the client can answer; without ``expected``, what is published meanwhile."""
        ack = "ack" in self.system.can
        return self._job("consume", group, expected=expected, ack=ack, nack_every=nack_every)

    def following(self) -> Job:
        """What is published meanwhile, with the time that each took."""
        return self._job("follow", "one", ack="ack" in self.system.can)


def _published(place: Place, *jobs: Job) -> Figures:
    """Confirmed messages a second, and whether they are there."""
    told = place.run(*jobs)
    count = sum(each["count"] for each in told)
    seconds = max(each["ended"] for each in told) - min(each["started"] for each in told)
    [seen] = place.run(place.consuming(count))
    return Figures(count / seconds, count, lost=count - seen["count"], twice=seen["twice"])


def one_by_one(place: Place) -> Figures:
    """One producer, each message confirmed before the next."""
    place.make()
    return _published(place, place.publishing(1))


def many(place: Place) -> Figures:
    """One producer, as quickly as its client can."""
    place.make()
    return _published(place, place.publishing(place.sizes.chunk))


def producers(place: Place) -> Figures:
    """Eight producers, each one by one."""
    place.make()
    return _published(place, *(place.publishing(1, number) for number in range(PRODUCERS)))


def backlog(place: Place, nack_every: int = 0) -> Figures:
    """Receive what is there; each message is answered for."""
    place.make()
    [filled] = place.run(place.publishing(place.sizes.chunk, most=place.sizes.backlog))
    count = filled["count"]
    [seen] = place.run(place.consuming(count, nack_every=nack_every))
    return Figures(seen["rate"], count, lost=count - seen["count"], twice=seen["twice"])


def redelivery(place: Place) -> Figures:
    """The same, but every hundredth is nacked once."""
    return backlog(place, NACK_EVERY)


def fan_out(place: Place) -> Figures:
    """One publisher, ten subscribers that each get everything; deliveries a second."""
    groups = [f"group-{number}" for number in range(SUBSCRIBERS)]
    place.make(groups)
    seconds = place.sizes.seconds / 2  # Ten times as much has to be read.
    publisher = place.publishing(place.sizes.chunk, most=place.sizes.fan_out, seconds=seconds)
    sent, *seen = place.run(publisher, *(place.consuming(group=group) for group in groups))
    delivered = sum(each["count"] for each in seen)
    seconds = max(each["last"] for each in seen) - sent["started"]
    twice = sum(each["twice"] for each in seen)
    return Figures(delivered / seconds, delivered, lost=len(groups) * sent["count"] - delivered, twice=twice)


def latency(place: Place) -> Figures:
    """From when it should have been sent to when it was received, at 1,000 a second; ms."""
    place.make()
    sent, seen = place.run(place.pacing(), place.following())
    figures = _late(sent["count"], seen)
    figures.whole = sent["count"] == int(RATE * place.sizes.latency_s)
    return figures


def delay(place: Place) -> Figures:
    """Messages that are due in 1 to 10 seconds: how late they come; ms."""
    place.make()
    sent, seen = place.run(place.delaying(), place.following())
    figures = _late(sent["count"], seen)
    figures.whole = sent["count"] == place.sizes.delayed
    return figures


def _late(expected: int, seen: dict[str, Any]) -> Figures:
    late = sorted(seen["late"]) or [float("nan")]
    more = {f"p{each:g}": late[min(int(len(late) * each / 100), len(late) - 1)] for each in (50, 99, 99.9)}
    lost = expected - seen["count"]
    return Figures(more["p99"], expected, lost=lost, twice=seen["twice"], more=more)


def memory(place: Place) -> Figures:
    """The server's memory with a million messages of 1 KiB that nobody reads; MB."""
    place.make()
    empty, before = place.server.resident_mb(), place.server.cpu_s()
    most, seconds = place.sizes.kept // FILLERS, place.sizes.kept_s
    told = place.run(
        *(place.publishing(place.sizes.chunk, number, most, seconds) for number in range(FILLERS))
    )
    count = sum(each["count"] for each in told)
    time.sleep(SETTLE_S)  # It may still be tidying up.
    resident, filled = place.server.resident_mb(), place.server.cpu_s()
    time.sleep(SETTLE_S)
    idle = (place.server.cpu_s() - filled) / SETTLE_S
    expected = min(count, place.sizes.read_back)
    [seen] = place.run(place.consuming(expected))
    more = {
        "bytes a message": (resident - empty) * 1e6 / count,
        "CPU us a message": (filled - before) * 1e6 / count,
        "idle CPU %": 100 * idle,
    }
    lost = max(expected - seen["count"], 0)
    return Figures(
        resident, count, lost=lost, twice=seen["twice"], whole=count >= place.sizes.kept, more=more
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

    def refusal(self, system: System) -> str:
        """Why the system does not take part; empty if it does."""
        if system.only and self.name not in system.only:
            return "not asked"
        if system.promise not in self.promises:
            return "keeps nothing on disk" if self.promises == KEPT else "not asked"
        if self.name == "W10" and system.command is None:
            return "runs elsewhere, so its memory is not known"
        lacking = sorted(self.needs - system.can)
        return f"has no {WORDS[lacking[0]]}" if lacking else ""


WORDS = {
    "groups": "subscribers that each get everything",
    "ack": "answer for a single message",
    "nack": "answer for a single message",
    "delay": "delayed messages",
}
KEPT: tuple[Promise, ...] = ("synced", "written")
ALL: tuple[Promise, ...] = ("synced", "written", "memory")

WORKLOADS: tuple[Workload, ...] = (
    Workload(name="W1", what="durable publish, one by one", unit="msg/s", run=one_by_one, promises=KEPT),
    Workload(name="W2", what="durable publish, pipelined or batched", unit="msg/s", run=many, promises=KEPT),
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
        name="W6", what="end-to-end latency at 1,000 msg/s, p99", unit="ms", run=latency, promises=ALL,
        more_is_better=False,
    ),
    Workload(name="W7", what="8 producers, each one by one", unit="msg/s", run=producers, promises=KEPT),
    Workload(
        name="W8", what="drain a backlog, 1 % nacked once", unit="msg/s", run=redelivery, promises=ALL,
        needs=frozenset({"ack", "nack"}),
    ),
    Workload(
        name="W9", what="lateness of 100,000 delayed messages, p99", unit="ms", run=delay, promises=ALL,
        needs=frozenset({"delay"}), more_is_better=False, sizes=(100,),
    ),
    Workload(
        name="W10", what="memory with a backlog of 1,000,000", unit="MB", run=memory, promises=ALL,
        more_is_better=False, sizes=(1024,),
    ),
)  # fmt: skip
