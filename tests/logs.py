"""Small logs in memory, for tests: segments of some batches, so that a few of those make many."""

from penstock.log.files import MemoryFiles
from penstock.log.log import Log, LogConfig
from penstock.wire.records import encode_values, lane_attributes

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
