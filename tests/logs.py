"""Small logs in memory, for tests: segments of some batches, so that a few of those make many."""

from collections.abc import Callable, Generator
from typing import TypeVar

from penstock.log.files import MemoryFiles
from penstock.log.log import Log, LogConfig
from penstock.log.maintenance.compaction import KEYS_MAX, compact
from penstock.log.rewrite import RewriteReport
from penstock.wire.records import Record, encode_values, lane_attributes, seal_batch

T = TypeVar("T")
SMALL = LogConfig(segment_bytes=500, index_bytes=150)


def open_log(config: LogConfig = SMALL) -> Log:
    return Log.open(MemoryFiles(), "d", config)


def publish(log: Log, *values: bytes, timestamp: int = 1000, lane: int = 0) -> int:
    return log.append(encode_values(list(values), timestamp, lane_attributes(lane)))


def values_of(log: Log, start: int = 0, end: int | None = None) -> list[bytes | None]:
    return [record.value for record in log.records(start, log.end if end is None else end)]


def filled(batches: int = 12, config: LogConfig = SMALL) -> Log:
    """Batches of three, 10 ms apart."""
    log = open_log(config)
    for number in range(batches):
        publish(log, *(b"%d" % (3 * number + place) for place in range(3)), timestamp=1000 + 10 * number)
    log.sync()
    return log


def rewritten(log: Log, keep: Callable[[Record], bool], upto: int) -> RewriteReport:
    """Rewrite a log in one go."""
    return finished(log.rewrite(keep, upto))


def compacted(log: Log, now_ms: int, tombstone_ms: int, keys_max: int = KEYS_MAX) -> RewriteReport:
    """Compact a log in one go."""
    return finished(compact(log, now_ms, tombstone_ms, keys_max))


def finished(steps: Generator[object, None, T]) -> T:
    """Take all steps; what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result


def undecodable() -> bytearray:
    """A batch with a valid checksum whose records are not gzip, as earlier versions accepted it."""
    batch = encode_values([b"x" * 100], 1000, 1)
    batch[70:80] = bytes(10)
    seal_batch(batch)
    return batch
