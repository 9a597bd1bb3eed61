"""The client processes of a workload: they connect, wait for each other, work, and tell what they did.

A message begins with its number, and the number with its producer's, so that
whoever reads knows what is missing and what came twice.  Times are of the
monotonic clock, which all processes of a machine share.
"""

import multiprocessing
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers.adapter import Adapter
from benchmarks.peers.systems import SYSTEMS

PRODUCER_NUMBERS = 10_000_000  # Each producer has so many.
START_S = 120.0
IDLE_S = 8.0  # Nothing for so long: there is nothing more.
RECEIVE = 500

_spawn = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one process does."""

    work: str  # A name of WORK.
    system: str
    address: str
    queue: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Seen:
    """What a reader got."""

    numbers: set[int] = field(default_factory=set)
    twice: int = 0
    first: float = 0.0
    last: float = 0.0

    def take(self, body: bytes) -> int:
        """Count a message; its number."""
        number = int(body[:12])
        if number in self.numbers:
            self.twice += 1
        self.numbers.add(number)
        self.last = time.monotonic()
        self.first = self.first or self.last
        return number

    def told(self) -> dict[str, Any]:
        """For the parent."""
        return {"count": len(self.numbers), "twice": self.twice, "first": self.first, "last": self.last}


def run(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """All at once; what each of them tells, in their order."""
    answers: Any = _spawn.SimpleQueue()
    barrier = _spawn.Barrier(len(jobs))
    children = [
        _spawn.Process(target=_child, args=(number, job, barrier, answers), daemon=True)
        for number, job in enumerate(jobs)
    ]
    for child in children:
        child.start()
    told = dict(answers.get() for _ in jobs)
    for child in children:
        child.join()
    for answer in told.values():
        if "failed" in answer:
            raise RuntimeError(answer["failed"])
    return [told[number] for number in range(len(jobs))]


def _child(number: int, job: Job, barrier: Any, answers: Any) -> None:
    try:
        system = next(each for each in SYSTEMS if each.name == job.system)
        client = system.client(job.address)
        if job.work.startswith("consume"):
            client.subscribe(job.queue, job.arguments.get("group", "one"))
        barrier.wait(START_S)
        answer = WORK[job.work](client, job.queue, **job.arguments)
        client.close()
        answers.put((number, answer))
    except BaseException:  # noqa: BLE001 - the parent raises it.
        barrier.abort()
        answers.put((number, {"failed": traceback.format_exc(limit=6)}))


def body(number: int, at: float, size: int) -> bytes:
    """A message of so many bytes."""
    return (b"%012d %017.6f " % (number, at)).ljust(size, b"x")


def publish(
    client: Adapter, queue: str, *, producer: int, size: int, seconds: float, chunk: int, most: int
) -> dict[str, Any]:
    """One by one, or so many at once, for some seconds; each confirmed."""
    number = producer * PRODUCER_NUMBERS
    first = number
    started = time.monotonic()
    while (now := time.monotonic()) < started + seconds and number - first < most:
        if chunk == 1:
            client.publish(queue, body(number, now, size))
        else:
            client.publish_many(queue, [body(each, now, size) for each in range(number, number + chunk)])
        number += chunk
    return {"count": number - first, "started": started, "ended": time.monotonic()}


def publish_paced(client: Adapter, queue: str, *, size: int, rate: int, seconds: float) -> dict[str, Any]:
    """At an even rate, one by one; each carries when it should have been sent."""
    start = time.monotonic() + 0.5
    count = int(rate * seconds)
    for number in range(count):
        due = start + number / rate
        while (wait := due - time.monotonic()) > 0:
            time.sleep(wait)
        client.publish(queue, body(number, due, size))
    return {"count": count}


def publish_later(client: Adapter, queue: str, *, size: int, count: int) -> dict[str, Any]:
    """With delays of 1 to 10 seconds, evenly; each carries when it is due."""
    chunk = 1000
    for first in range(0, count, chunk):
        now = time.monotonic()
        delays = [1 + 9 * ((number * 7919) % count) / count for number in range(first, first + chunk)]
        numbered = enumerate(delays, first)
        client.publish_later(queue, [(body(number, now + delay, size), delay) for number, delay in numbered])
    return {"count": count}


def consume(
    client: Adapter, queue: str, *, expected: int, ack: bool, nack_every: int = 0, group: str = "one"
) -> dict[str, Any]:
    """Until so many different ones came, or nothing comes any more; each acked, some nacked once before."""
    del queue, group
    seen, nacked = Seen(), set()
    while len(seen.numbers) < expected:
        tokens = []
        found = client.receive(RECEIVE, IDLE_S)
        if not found:
            break
        for data, token in found:
            number = int(data[:12])
            if nack_every and number % nack_every == 0 and number not in nacked:
                nacked.add(number)
                client.nack(token)
            else:
                seen.take(data)
                tokens.append(token)
        if ack and tokens:
            client.ack(tokens)
    return seen.told()


def consume_late(
    client: Adapter, queue: str, *, expected: int, ack: bool, group: str = "one"
) -> dict[str, Any]:
    """How much later than it says in them messages came, in ms."""
    del queue, group
    seen, late = Seen(), []
    while len(seen.numbers) < expected:
        found = client.receive(100, IDLE_S)
        if not found:
            break
        now = time.monotonic()
        for data, _ in found:
            seen.take(data)
            late.append((now - float(data[13:30])) * 1000)
        if ack:
            client.ack([token for _, token in found])
    return seen.told() | {"late": late}


WORK: dict[str, Callable[..., dict[str, Any]]] = {
    "publish": publish,
    "publish_paced": publish_paced,
    "publish_later": publish_later,
    "consume": consume,
    "consume_late": consume_late,
}
