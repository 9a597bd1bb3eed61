"""What each cluster has to do, and what is measured of it.

    publish    one producer, pipelined or batched as its client can
    singles    64 producers in processes of their own, each with one message under way
    consume    what was published first is received, each message acked
    failover   8 producers with one message under way each; the node that acknowledges is killed with
               ``kill -9``.  The longest time without any acknowledgement, and the longest of one producer

All messages go to one queue, stream or partition, and have a number.  They are read back and counted:
acknowledged and missing is *lost*; received again is *twice*.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import uuid4

from benchmarks.cluster.peers.clusters import Candidate, Cluster
from benchmarks.peers import clients
from benchmarks.peers.clients import PRODUCER_NUMBERS, Job, body
from benchmarks.peers.systems import new_client

SIZE = 1024
PRODUCERS = 8
READY_S = 60.0
IDLE_S = 45.0  # Nothing for so long: the rest is lost.  A new group may wait for its coordinator.


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of it."""

    seconds: float  # Of publishing.
    most: int  # Messages of one producer.
    chunk: int  # Messages that are begun together.
    singles: int  # Producers.
    before_s: float  # Of load before the kill.


FULL = Sizes(seconds=3.0, most=100_000, chunk=1000, singles=64, before_s=2.0)
QUICK = Sizes(seconds=1.0, most=10_000, chunk=1000, singles=64, before_s=1.0)
TINY = Sizes(seconds=0.1, most=100, chunk=50, singles=4, before_s=0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One run of one piece of work by one cluster."""

    name: str
    work: str
    value: float
    messages: int
    lost: int
    twice: int
    more: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Queue:
    """A new queue of a cluster that runs."""

    candidate: Candidate
    cluster: Cluster
    name: str

    def _job(self, work: str, adapter: str = "", **more: Any) -> Job:
        return Job(
            work=work, adapter=adapter or self.candidate.adapter, mode=self.candidate.mode,
            address=self.cluster.address, queue=self.name, **more,
        )  # fmt: skip

    def producing(self, work: str, adapter: str, producer: int, **arguments: Any) -> Job:
        """A producer, which has published one message before all of them begin."""
        first = body((producer + 1) * PRODUCER_NUMBERS - 1, 0, SIZE)
        arguments |= {"size": SIZE, "producer": producer}
        return self._job(work, adapter, first=first, arguments=arguments)

    def publishing(self, producer: int, sizes: Sizes, chunk: int) -> Job:
        adapter = self.candidate.one_by_one if chunk == 1 else ""
        most, seconds = sizes.most, sizes.seconds
        return self.producing("publish", adapter, producer, seconds=seconds, chunk=chunk, most=most)

    def read_back(self, told: Sequence[dict[str, Any]]) -> "Seen":
        """Receive and ack all that the producers have published."""
        published = sum(each["count"] + 1 for each in told)
        arguments = {"size": SIZE, "expected": published, "ack": True, "idle_s": IDLE_S}
        [seen] = clients.run([self._job("consume", group="one", arguments=arguments)])
        return Seen(seen["rate"], published, published - seen["count"], seen["twice"])

    def figures(self, work: str, value: float, seen: "Seen", **more: float) -> Figures:
        return Figures(
            name=self.candidate.name, work=work, value=value, messages=seen.published, lost=seen.lost,
            twice=seen.twice, more=more,
        )  # fmt: skip


class Seen(NamedTuple):
    """What was read back."""

    rate: float
    published: int
    lost: int
    twice: int


def new_queue(candidate: Candidate, cluster: Cluster) -> Queue:
    """Clusters that have just been started refuse for some time."""
    name = f"q{uuid4().hex[:12]}"
    deadline = time.monotonic() + READY_S
    while True:
        try:
            with closing(new_client(candidate.adapter, cluster.address, candidate.mode)) as client:
                client.make(name, ["one"])
            return Queue(candidate, cluster, name)
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def rate(told: Sequence[dict[str, Any]]) -> float:
    """Messages a second of all producers, from when the first of them began until the last one ended."""
    seconds = max(each["ended"] for each in told) - min(each["started"] for each in told)
    return float(sum(each["count"] for each in told) / seconds)


def publish_and_consume(candidate: Candidate, cluster: Cluster, sizes: Sizes) -> Iterator[Figures]:
    queue = new_queue(candidate, cluster)
    told = clients.run([queue.publishing(0, sizes, sizes.chunk)])
    seen = queue.read_back(told)
    yield queue.figures("publish", rate(told), seen)
    yield queue.figures("consume", seen.rate, seen)


def singles(candidate: Candidate, cluster: Cluster, sizes: Sizes) -> Iterator[Figures]:
    queue = new_queue(candidate, cluster)
    told = clients.run([queue.publishing(each, sizes, 1) for each in range(sizes.singles)])
    yield queue.figures("singles", rate(told), queue.read_back(told))


def failover(candidate: Candidate, cluster: Cluster, sizes: Sizes) -> Iterator[Figures]:
    """It leaves the cluster with two nodes."""
    queue = new_queue(candidate, cluster)
    leader = cluster.leader(queue.name)
    killed = 0.0

    def kill(shared: Any) -> None:
        nonlocal killed
        time.sleep(sizes.before_s)
        killed = time.monotonic()
        cluster.kill(leader)
        shared.value = int(killed * 1e6)

    adapter = candidate.one_by_one
    told = clients.run([queue.producing("publish_through", adapter, each) for each in range(PRODUCERS)], kill)
    acked = [each["acked"] for each in told]
    of_one = max(longest_gap(each, killed) for each in acked)
    value = longest_gap(together(acked), killed)
    yield queue.figures("failover", value, queue.read_back(told), **{"of one producer": of_one})


def together(acked: Sequence[Sequence[float]]) -> list[float]:
    """The acknowledgements of all producers in one order, until the first of them has ended."""
    until = min(each[-1] for each in acked)
    return sorted(at for each in acked for at in each if at <= until)


def longest_gap(acked: Sequence[float], killed: float) -> float:
    """The longest time between two acknowledgements, from the last before the kill on; times rise."""
    first = max((number for number, at in enumerate(acked) if at <= killed), default=0)
    after = acked[first:]
    return max((later - earlier for earlier, later in pairwise(after)), default=0.0)


# In this order: the last one leaves two nodes.
RUNS = {"publish": publish_and_consume, "singles": singles, "failover": failover}
WORKS = {
    "publish": "batched publish, one producer",
    "singles": "64 producers, one message at a time each",
    "consume": "consume, each message acked",
    "failover": "fail-over: longest time without an acknowledgement",
}
UNITS = {"failover": "s"}  # Else messages a second.
