"""How the cost of a server grows: with topics, partitions, groups, backlog, and the size of a message.

    make bench-scaling                                everything, compiled, with the page; some minutes
    python -m benchmarks.scaling --quick              up to a tenth of it
    python -m benchmarks.scaling --only topics        just that (again for more)

Each point is a server of its own with one more of something, and the same
work: publish some messages, receive and acknowledge them.  What is compared is
the CPU time of the server for a message, which a busy machine changes less
than the rate (a lone request still costs several times more there); the rate,
its memory and the time it needs to start again stand beside it.  Flat is a
horizontal line in the plots: both axes are logarithmic, and a slope of one is
a cost that grows with the number.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import penstock
from benchmarks import scaling_page
from benchmarks.machine import describe
from benchmarks.processes import ServerProcess
from penstock.client.sync import RemoteBroker

ROUNDS = 3
RECEIVE = 500
LARGE_BATCH_BYTES = 1_000_000
IDLE_S = 1.0
CPU_CLOCK = 2  # CPUCLOCK_SCHED of Linux; clock_getcpuclockid(3) makes the same number.
# Leases that are taken and given back are written down; where data goes to the system's cache, so do they.
DURABILITY: Literal["os"] = "os"

Work = Callable[["Server", int], "Point"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What one number of something cost."""

    messages: int
    publish_us: float  # CPU time of the server for a message.
    receive_us: float  # The same, received and acknowledged; with groups, for a delivery.
    publish_rate: float  # Messages a second, on this machine as it was.
    receive_rate: float
    memory_mb: float
    start_ms: float  # Of a server on what is there then.
    start_cpu_ms: float
    idle_percent: float  # Of a core, when nobody asks for anything.


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """One dimension."""

    name: str
    numbers: tuple[int, ...]
    quick: int  # The largest number of a quick run.
    work: Work


class Server:
    """A server on a directory, a client, and what both have used up."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._process = ServerProcess(directory)
        self.broker: RemoteBroker = penstock.connect(self._process.url)

    def _cpu_s(self) -> float:
        """Of the server; the kernel's clock of a process, whose steps are finer than those in /proc."""
        return time.clock_gettime((~self._process.pid << 3) | CPU_CLOCK)

    def measured(self, work: Callable[[], int]) -> tuple[float, float]:
        """CPU time of the server in us for each of what it did, and how many it did in a second."""
        cpu, started = self._cpu_s(), time.perf_counter()
        count = work()
        seconds = time.perf_counter() - started
        return (self._cpu_s() - cpu) * 1e6 / count, count / seconds

    def point(self, messages: int, publish: Callable[[], int], receive: Callable[[], int]) -> Point:
        """Publish, look at the memory, receive, and start again."""
        publish_us, publish_rate = self.measured(publish)
        memory_mb = self._process.resident_mb()
        receive_us, receive_rate = self.measured(receive)
        time.sleep(IDLE_S)  # What is left to be written down.
        idle = self._cpu_s()
        time.sleep(IDLE_S)
        idle_percent = 100 * (self._cpu_s() - idle) / IDLE_S
        self.close()
        self._process = ServerProcess(self._directory)
        start_cpu_ms = self._cpu_s() * 1000
        self.broker = penstock.connect(self._process.url)
        return Point(
            messages=messages, publish_us=publish_us, receive_us=receive_us, publish_rate=publish_rate,
            receive_rate=receive_rate, memory_mb=memory_mb, start_ms=self._process.ready_seconds * 1000,
            start_cpu_ms=start_cpu_ms, idle_percent=idle_percent,
        )  # fmt: skip

    def close(self) -> None:
        """Both."""
        self.broker.close()
        self._process.__exit__()

    def publish(self, topics: Sequence[str], messages: int, batch: int, size: int = 100) -> int:
        """So many in all, in batches, topic by topic in turn."""
        values = [b"x" * size] * batch
        for number in range(messages // batch):
            self.broker.publish_batch(topics[number % len(topics)], values)
        return messages // batch * batch

    def receive(self, topic: str, group: str, messages: int, at_once: int = RECEIVE) -> int:
        """So many, each acknowledged."""
        left = messages
        with self.broker.consumer(topic, group=group) as consumer:
            while left > 0:
                found = consumer.receive(min(at_once, left), wait="10s")
                assert found, "all of them are there"
                consumer.ack(found)
                left -= len(found)
        return messages


def topics(server: Server, number: int) -> Point:
    """200 messages for each topic, or 20,000 in all; published by 10 and received by 200."""
    messages, names = max(20_000, 200 * number), [f"t{each}" for each in range(number)]
    for name in names:
        server.broker.create_topic(name, durability=DURABILITY)
        server.broker.create_group(name, "readers", start="earliest")

    def receive() -> int:
        turns = range(messages // 200)  # With a consumer for each, so that one topic has as many as all.
        return sum(server.receive(names[each % number], "readers", 200) for each in turns)

    return server.point(messages, lambda: server.publish(names, messages, 10), receive)


def partitions(server: Server, number: int) -> Point:
    """100,000 messages in batches of 1,000 to one topic with so many partitions."""
    messages = 100_000
    server.broker.create_topic("t", partitions=number, durability=DURABILITY)
    server.broker.create_group("t", "readers", start="earliest")
    return server.point(
        messages,
        lambda: server.publish(["t"], messages, 1000),
        lambda: server.receive("t", "readers", messages),
    )


def groups(server: Server, number: int) -> Point:
    """10,000 messages in batches of 10 to one topic that so many groups read."""
    messages, names = 10_000, [f"g{each}" for each in range(number)]
    server.broker.create_topic("t", durability=DURABILITY)
    for name in names:
        server.broker.create_group("t", name, start="earliest")

    def receive() -> int:
        return sum(server.receive("t", name, messages) for name in names)

    return server.point(messages, lambda: server.publish(["t"], messages, 10), receive)


def backlog(server: Server, number: int) -> Point:
    """So many messages in batches of 1,000, of which at most 100,000 are received."""
    server.broker.create_topic("t", durability=DURABILITY, retention=None)
    server.broker.create_group("t", "readers", start="earliest")
    return server.point(
        number,
        lambda: server.publish(["t"], number, 1000),
        lambda: server.receive("t", "readers", min(number, 100_000)),
    )


def sizes(server: Server, number: int) -> Point:
    """Messages of so many bytes, 1,000 in a batch or a megabyte; a hundred megabytes, or 50,000 of them."""
    batch = max(min(LARGE_BATCH_BYTES // number, 1000), 1)
    messages = max(min(100_000_000 // number, 50_000) // batch, 1) * batch
    server.broker.create_topic("t", durability=DURABILITY, retention=None)
    server.broker.create_group("t", "readers", start="earliest")
    return server.point(
        messages,
        lambda: server.publish(["t"], messages, batch, number),
        lambda: server.receive("t", "readers", messages, min(batch, RECEIVE)),
    )


GROWTHS: tuple[Growth, ...] = (
    Growth(name="topics", numbers=(1, 10, 100, 1000), quick=100, work=topics),
    Growth(name="partitions", numbers=(1, 12, 128), quick=128, work=partitions),
    Growth(name="groups", numbers=(1, 10, 100), quick=10, work=groups),
    Growth(
        name="backlog", quick=100_000, work=backlog,
        numbers=(1000, 10_000, 100_000, 1_000_000, 10_000_000),
    ),
    Growth(
        name="size", quick=1_000_000, work=sizes,
        numbers=(100, 1000, 10_000, 100_000, 1_000_000),
    ),
)  # fmt: skip


def measure(growth: Growth, number: int, rounds: int) -> Point:
    """The medians, each on a server of its own."""
    points = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="scaling-") as directory:
            server = Server(directory)
            try:
                points.append(growth.work(server, number))
            finally:
                server.close()
    names = Point.__slots__
    return Point(**{name: median(getattr(point, name) for point in points) for name in names})


def points_of(growth: Growth, quick: bool, rounds: int) -> Iterator[tuple[int, Point]]:
    """From few to many; the largest of them once, because it takes as long as all the others."""
    for number in growth.numbers:
        if not quick or number <= growth.quick:
            yield number, measure(growth, number, 1 if quick or number >= 10_000_000 else rounds)


def main(arguments: Sequence[str]) -> int:
    """The command."""
    options = parser().parse_args(arguments)
    found: dict[str, dict[int, Point]] = {}
    for growth in GROWTHS:
        if options.only and growth.name not in options.only:
            continue
        found[growth.name] = {}
        for number, point in points_of(growth, options.quick, options.rounds):
            found[growth.name][number] = point
            print(scaling_page.line(growth.name, number, point), flush=True)
    if options.page:
        scaling_page.write(found, describe() | {"sizes": "quick" if options.quick else "full"})
    return 0


def parser() -> argparse.ArgumentParser:
    """What the command takes."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling", description="how the cost of a server grows"
    )
    names = [each.name for each in GROWTHS]
    made.add_argument("--only", action="append", choices=names, help="a dimension; repeatable")
    made.add_argument("--quick", action="store_true", help="the small numbers, once")
    made.add_argument("--rounds", type=int, default=ROUNDS, help="measurements of each (default 3)")
    made.add_argument("--page", action="store_true", help="write docs/benchmarks/scaling.*")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
