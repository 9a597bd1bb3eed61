"""The client processes of a workload: they connect, wait for each other, work, and tell what they did.

A message begins with its number, and the number with its producer's, so that
whoever reads knows what is missing and what came twice.  Times are of the
monotonic clock, which all processes of a machine share.

Children are forked from a server that has imported the clients already: eight
of them start in less time than one message of a slow system takes.
"""

import gc
import multiprocessing
import threading
import time
import traceback
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers.adapter import Adapter, Token
from benchmarks.peers.systems import new_client

PRODUCER_NUMBERS = 10_000_000  # Each producer has so many.
START_S = 120.0
IDLE_S = 8.0  # Nothing for so long: there is nothing more.
WAIT_S = 1.0  # Of one call, so that a reader hears that the publisher has ended.
RECEIVE = 500
FOLLOW_ACK = 100  # Who follows a live stream answers for so many together, whatever the system.
LATER_CHUNK = 100
SLOW_S = 0.5  # An acknowledgement that took so long: the failure is not over.
CALM_S = 4.0  # None was slow for so long: it is.
THROUGH_S_MAX = 40.0
HOPELESS_S = 10.0  # Who has not done its share by then does not go on.

_context = multiprocessing.get_context("forkserver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one process does."""

    work: str  # A name of WORK.
    adapter: str  # module:class, in adapters/
    mode: str
    address: str
    queue: str
    group: str = ""  # To subscribe to before all begin.
    first: bytes = b""  # A message to publish before all begin, so that nobody connects meanwhile.
    arguments: dict[str, Any] = field(default_factory=dict)


def prepare(adapters: Sequence[str]) -> None:
    """Have the clients of these imported, before anything is measured."""
    modules = {f"benchmarks.peers.adapters.{each.partition(':')[0]}" for each in adapters}
    _context.set_forkserver_preload(["benchmarks.peers.clients", "benchmarks.peers.report", *sorted(modules)])
    first = _context.Process(target=time.monotonic)
    first.start()
    first.join()


def run(jobs: Sequence[Job], meanwhile: Callable[[Any], None] | None = None) -> list[dict[str, Any]]:
    """All at once; what each of them tells, in their order.

    ``meanwhile`` is called with the value that they share when all of them have begun.
    """
    answers: Any = _context.SimpleQueue()
    barrier = _context.Barrier(len(jobs) + (meanwhile is not None))
    total = _context.Value("q", -1)  # What the publisher has published, when it has ended.
    children = [
        _context.Process(target=_child, args=(number, job, barrier, total, answers), daemon=True)
        for number, job in enumerate(jobs)
    ]
    for child in children:
        child.start()
    if meanwhile is not None:
        with suppress(threading.BrokenBarrierError):  # A child has failed, and tells why.
            barrier.wait(START_S)
            meanwhile(total)
    told = dict(answers.get() for _ in jobs)
    for child in children:
        child.join()
    failures = [answer["failed"] for answer in told.values() if "failed" in answer]
    if failures:  # The others only say that the barrier broke.
        raise RuntimeError(next((each for each in failures if "BrokenBarrier" not in each), failures[0]))
    return [told[number] for number in range(len(jobs))]


def _child(number: int, job: Job, barrier: Any, total: Any, answers: Any) -> None:
    # Each has the modules of all clients, as no user has; the collector would look at them for 40 ms.
    gc.freeze()
    try:
        client = new_client(job.adapter, job.address, job.mode)
        if job.group:
            client.subscribe(job.queue, job.group)
        if job.first:
            client.publish(job.queue, job.first)
        barrier.wait(START_S)
        answer = WORK[job.work](client, job.queue, total, **job.arguments)
        client.close()
        answers.put((number, answer | {"cpu": time.process_time()}))
    except BaseException:  # noqa: BLE001 - the parent raises it.
        barrier.abort()
        answers.put((number, {"failed": traceback.format_exc(limit=6)}))


def body(number: int, at: float, size: int) -> bytes:
    """A message of so many bytes."""
    return (b"%012d %017.6f " % (number, at)).ljust(size, b"x")


def publish(
    client: Adapter,
    queue: str,
    total: Any,
    *,
    producer: int,
    size: int,
    seconds: float,
    chunk: int,
    most: int,
) -> dict[str, Any]:
    """One by one, or so many at once, for some seconds; all confirmed at the end."""
    number = first = producer * PRODUCER_NUMBERS
    rest = body(0, 0, size)[12:]
    chunk = min(chunk, client.send_max)
    started = time.monotonic()
    while (passed := time.monotonic() - started) < seconds and number - first < most:
        if passed > HOPELESS_S and (number - first) / passed * seconds < most:
            break
        if chunk == 1:
            client.publish(queue, b"%012d" % number + rest)
        else:
            client.send(queue, [b"%012d" % each + rest for each in range(number, number + chunk)])
        number += chunk
    client.flush()
    total.value = number - first
    return {"count": number - first, "started": started, "ended": time.monotonic()}


def publish_through(client: Adapter, queue: str, total: Any, *, producer: int, size: int) -> dict[str, Any]:
    """One by one, while a node is killed, until acknowledgements have come regularly again.

    ``total`` is when it was killed, in microseconds; negative before.
    """
    number = first = producer * PRODUCER_NUMBERS
    rest = body(0, 0, size)[12:]
    acked, slow_at = array("d"), 0.0
    while True:
        begun = time.monotonic()
        client.publish(queue, b"%012d" % number + rest)
        number += 1
        acked.append(now := time.monotonic())
        if now - begun > SLOW_S:
            slow_at = now
        if (killed := total.value / 1e6) > 0 and (
            now - max(killed, slow_at) > CALM_S or now - killed > THROUGH_S_MAX
        ):
            return {"count": number - first, "acked": acked}


def publish_paced(
    client: Adapter, queue: str, total: Any, *, size: int, rate: int, seconds: float
) -> dict[str, Any]:
    """At an even rate, not waiting for answers; each carries when it should have been sent."""
    start = time.monotonic() + 0.2
    count = int(rate * seconds)
    number = 0
    while number < count and time.monotonic() < start + 2 * seconds:  # Who is so late cannot do it.
        due = start + number / rate
        while (wait := due - time.monotonic()) > 0:
            time.sleep(wait)
        client.send(queue, [body(number, due, size)])
        number += 1
    client.flush()
    total.value = number
    return {"count": number}


def publish_later(
    client: Adapter, queue: str, total: Any, *, size: int, count: int, longest: int, seconds: float
) -> dict[str, Any]:
    """With delays of 1 to so many seconds, as many as go within some time; each carries when it is due."""
    number, started = 0, time.monotonic()
    while number < count and (now := time.monotonic()) < started + seconds:
        numbers = range(number, number + LATER_CHUNK)
        delays = [1 + each * 7919 % longest for each in numbers]
        bodies = [body(each, now + delay, size) for each, delay in zip(numbers, delays, strict=True)]
        client.publish_later(queue, bodies, delays)
        number += LATER_CHUNK
    total.value = number
    return {"count": number, "seconds": time.monotonic() - started}


@dataclass(slots=True)
class Reader:
    """Takes messages until all have come, or nothing comes any more."""

    client: Adapter
    total: Any  # How many there are, once it is known.
    size: int
    idle_s: float = IDLE_S
    numbers: set[int] = field(default_factory=set)
    twice: int = 0
    first: float = 0.0  # When the first arrived,
    together: int = 0  # and how many with it.
    last: float = 0.0

    def batches(self) -> Any:
        """What arrives, as (when, messages, their numbers)."""
        quiet_s = time.monotonic() + self.idle_s
        while not 0 <= self.total.value <= len(self.numbers):
            found = self.client.receive(RECEIVE, WAIT_S)
            now = time.monotonic()
            if found:
                quiet_s = now + self.idle_s
                self.first = self.first or now
                yield now, found, [int(data[:12]) for data, _ in found]
            elif now > quiet_s:
                break

    def take(self, numbers: Sequence[int], found: Sequence[tuple[bytes, Token]]) -> None:
        """These are done."""
        assert all(len(data) == self.size for data, _ in found), "a message has another length"
        known = len(self.numbers)
        self.numbers.update(numbers)
        self.twice += len(numbers) - (len(self.numbers) - known)
        self.together = self.together or len(numbers)

    def told(self) -> dict[str, Any]:
        """For the parent, when everything is answered for."""
        self.client.flush()
        last = time.monotonic()
        rest = (len(self.numbers) - self.together) or len(self.numbers)  # Unless all came at once.
        rate = rest / (last - self.first) if self.first else 0.0
        return {"count": len(self.numbers), "twice": self.twice, "last": last, "rate": rate}


def consume(
    client: Adapter,
    queue: str,
    total: Any,
    *,
    size: int,
    expected: int,
    ack: bool,
    nack_every: int = 0,
    idle_s: float = IDLE_S,
) -> dict[str, Any]:
    """Each is acked, and some are nacked once before."""
    del queue
    if expected:
        total.value = expected
    reader = Reader(client, total, size, idle_s)
    nacked: set[int] = set()
    for _, found, numbers in reader.batches():
        failed: list[Token] = []
        if nack_every:
            again = {each for each in numbers if each % nack_every == 0} - nacked
            nacked |= again
            pairs = list(zip(numbers, found, strict=True))
            failed = [each[1] for number, each in pairs if number in again]
            numbers = [number for number, _ in pairs if number not in again]
            found = [each for number, each in pairs if number not in again]
        if failed:
            client.nack(failed)
        reader.take(numbers, found)
        if ack and found:
            client.ack([token for _, token in found])
    return reader.told()


def follow(client: Adapter, queue: str, total: Any, *, size: int, ack: bool) -> dict[str, Any]:
    """How much later than it says in them messages came, in ms."""
    del queue
    reader = Reader(client, total, size)
    late: list[float] = []
    tokens: list[Token] = []
    for now, found, numbers in reader.batches():
        late += [(now - float(data[13:30])) * 1000 for data, _ in found]
        reader.take(numbers, found)
        tokens += [token for _, token in found]
        if ack and len(tokens) >= FOLLOW_ACK:
            client.ack(tokens)
            tokens = []
    if ack and tokens:
        client.ack(tokens)
    return reader.told() | {"late": late}


WORK: dict[str, Callable[..., dict[str, Any]]] = {
    "publish": publish,
    "publish_through": publish_through,
    "publish_paced": publish_paced,
    "publish_later": publish_later,
    "consume": consume,
    "follow": follow,
}
