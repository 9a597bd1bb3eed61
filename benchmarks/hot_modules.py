"""The compiled modules alone: the delivery engine and the record codec, ns a message.

What was there before is frozen out of the garbage collector's sight, so that
the modules pay for collecting what they make and not for what else was
imported: a thousand records are more than a collection's worth.
"""

import gc
import time
from collections.abc import Callable

from benchmarks.model import Benchmark, Round, Rounds, Target
from penstock.delivery.engine import DeliveryEngine
from penstock.log.lanes import LaneIndex
from penstock.wire.records import BatchBuilder, decode_batch, encode_values

VALUE = b"x" * 100
LEASE = 100
RECORDS = 1000
HIGH = 1 << 40  # There is always more to lease.


def _round(messages: int, work: Callable[[], None], limit: Callable[[], None]) -> Round:
    """Both sides once, in nanoseconds a message."""
    gc.freeze()
    started, cpu_started = time.perf_counter(), time.process_time()
    work()
    cpu, elapsed = time.process_time() - cpu_started, time.perf_counter() - started
    started = time.perf_counter()
    limit()
    elapsed_limit = time.perf_counter() - started
    gc.unfreeze()
    nano = 1e9 / messages
    return Round(measured=elapsed * nano, limit=elapsed_limit * nano, cpu=cpu * nano)


def lease_and_settle(size: int) -> Rounds:
    """``size`` leases of 100 offsets, each settled as a whole; the limit sets and deletes a dict entry."""

    def work() -> None:
        engine = DeliveryEngine(0, LaneIndex(), 4)
        for now_ms in range(size):
            lease = engine.lease(LEASE, HIGH, now_ms, 30_000, 1)
            assert lease is not None
            engine.settle(lease.number, lease.start, lease.end)

    def limit() -> None:
        leases: dict[int, tuple[int, int, int]] = {}
        for now_ms in range(size):
            leases[now_ms] = (now_ms * LEASE, now_ms * LEASE + LEASE, now_ms + 30_000)
            del leases[now_ms]

    while True:
        yield _round(size * LEASE, work, limit)


def encode(size: int) -> Rounds:
    """``size`` batches of 1,000 values; the limit joins the values into one byte string."""
    values = [VALUE] * RECORDS

    def work() -> None:
        for _ in range(size):
            encode_values(values, 1)

    def limit() -> None:
        for _ in range(size):
            b"".join(values)

    while True:
        yield _round(size * RECORDS, work, limit)


def decode(size: int) -> Rounds:
    """``size`` batches of 1,000 records; the limit cuts out values where it knows they are."""
    batch = bytes(encode_values([VALUE] * RECORDS, 1))
    starts = range(0, RECORDS * len(VALUE), len(VALUE))

    def work() -> None:
        for _ in range(size):
            decode_batch(batch)

    def limit() -> None:
        for _ in range(size):
            [batch[start : start + 100] for start in starts]

    while True:
        yield _round(size * RECORDS, work, limit)


def encode_all(size: int) -> Rounds:
    """Records with key, value and a header, added from interpreted Python."""
    headers: list[tuple[str, bytes | None]] = [("content-type", b"application/json")]

    def work() -> None:
        for _ in range(size):
            builder = BatchBuilder()
            for _ in range(RECORDS):
                builder.add(b"customer-17", VALUE, headers)
            builder.build(1, 1)

    def limit() -> None:
        for _ in range(size):
            parts: list[bytes] = []
            for _ in range(RECORDS):
                parts.append(VALUE)  # noqa: PERF401 - a plain loop is what it measures
            b"".join(parts)

    while True:
        yield _round(size * RECORDS, work, limit)


def decode_all(size: int) -> Rounds:
    """Records with key, value and a header."""
    builder = BatchBuilder()
    for _ in range(RECORDS):
        builder.add(b"customer-17", VALUE, [("content-type", b"application/json")])
    batch = bytes(builder.build(1, 1))
    starts = range(0, RECORDS * len(VALUE), len(VALUE))

    def work() -> None:
        for _ in range(size):
            decode_batch(batch)

    def limit() -> None:
        for _ in range(size):
            [
                (batch[start : start + 11], batch[start : start + 100], batch[start : start + 16])
                for start in starts
            ]

    while True:
        yield _round(size * RECORDS, work, limit)


BENCHMARKS = [
    Benchmark(
        name="engine",
        what="delivery engine alone: lease and ack of ranges of 100",
        unit="ns/msg",
        limit="a dict entry set and deleted a range",
        run=lease_and_settle,
        sizes={"tiny": 10, "quick": 20_000, "full": 200_000},
        target=Target(value=10, direction="at most"),
        grows="leases made and settled",
    ),
    Benchmark(
        name="decode",
        what="record codec: decode, values of 100 bytes",
        unit="ns/msg",
        limit="slices in a plain loop",
        run=decode,
        sizes={"tiny": 1, "quick": 100, "full": 1000},
        target=Target(value=200, direction="at most"),
    ),
    Benchmark(
        name="encode",
        what="record codec: encode, values of 100 bytes",
        unit="ns/msg",
        limit="join (memcpy) of the values",
        run=encode,
        sizes={"tiny": 1, "quick": 100, "full": 1000},
        target=Target(value=300, direction="at most"),
    ),
    Benchmark(
        name="decode-all",
        what="record codec: decode with key, value and a header",
        unit="ns/msg",
        limit="slices in a plain loop",
        run=decode_all,
        sizes={"tiny": 1, "quick": 50, "full": 500},
    ),
    Benchmark(
        name="encode-all",
        what="record codec: encode with key, value and a header",
        unit="ns/msg",
        limit="append in a plain loop, join",
        run=encode_all,
        sizes={"tiny": 1, "quick": 50, "full": 500},
    ),
]
