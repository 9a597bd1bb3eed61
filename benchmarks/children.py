"""What is measured in a process of its own, because memory and recovery are properties of a process.

    python -m benchmarks.children WORK SIZE DIRECTORY

Each piece of work prints one JSON object; ``write-log`` prints it and goes on
writing until it is killed, which is the point.
"""

import gc
import json
import os
import sys
import time
from array import array
from collections.abc import Callable
from random import Random

import penstock
from benchmarks.machine import resident_bytes
from penstock import Message
from penstock.log.files import SystemFiles
from penstock.wire.records import check_batch

VALUE = b"x" * 100
BATCH = 1000
LEASE = 100
SMALL_BATCH = (
    10  # Of about a kilobyte: several between two entries of the index, so it is as dense as it gets.
)
WARM_UP = 10  # Batches before the first look: imports, caches and buffers are not growth.
LOOK_EVERY = 50  # Batches between looks at the memory, so that a peak does not hide.
DAY_SECONDS = 86_400
SINGLES_SHARE = 20  # A twentieth of the log that is opened, its end, is written one by one.


class Growth:
    """Watches how far the resident memory rises above where it was."""

    def __init__(self) -> None:
        gc.collect()
        self._before = resident_bytes()
        self.highest = 0

    def look(self) -> None:
        """Take note of where it is now."""
        self.highest = max(self.highest, resident_bytes() - self._before)


def backlog(size: int, directory: str) -> dict[str, float]:
    """Publish ``size`` messages that a group has before it, then read all of them once."""
    with penstock.open(directory) as broker:
        broker.create_topic("numbers", durability="os")
        broker.create_group("numbers", "readers")
        with broker.consumer("numbers", group="readers") as consumer:
            for _ in range(WARM_UP):
                broker.publish_batch("numbers", [VALUE] * BATCH)
                consumer.ack(consumer.receive(BATCH))
            growth = Growth()
            started = time.perf_counter()
            for number in range(size // SMALL_BATCH):
                broker.publish_batch("numbers", [VALUE] * SMALL_BATCH)
                if number % LOOK_EVERY == 0:
                    growth.look()
            growth.look()
            written, write_seconds = growth.highest, time.perf_counter() - started
            assert broker.depth("numbers", "readers") == size // SMALL_BATCH * SMALL_BATCH
            started = time.perf_counter()
            batches = 0
            while messages := consumer.receive(BATCH):
                consumer.ack(messages)
                batches += 1
                if batches % LOOK_EVERY == 0:
                    growth.look()
            growth.look()
            assert broker.depth("numbers", "readers") == 0
    return {
        "bytes": growth.highest,
        "written_bytes": written,
        "write_seconds": write_seconds,
        "read_seconds": time.perf_counter() - started,
    }


def in_flight(size: int, directory: str) -> dict[str, float]:
    """Lease ``size`` messages by hundreds and answer none; the messages themselves are dropped."""
    with penstock.open(directory, config=penstock.BrokerConfig(in_flight_max=size)) as broker:
        broker.create_topic("numbers", durability="os")
        with broker.consumer(
            "numbers", group="readers", max_in_flight=size, visibility_timeout="1h"
        ) as consumer:
            for _ in range(size // BATCH + WARM_UP):
                broker.publish_batch("numbers", [VALUE] * BATCH)
            for _ in range(WARM_UP):
                consumer.ack(consumer.receive(BATCH))
            growth = Growth()
            for number in range(size // LEASE):
                assert len(consumer.receive(LEASE)) == LEASE
                if number % LOOK_EVERY == 0:
                    growth.look()
            growth.look()
            assert consumer.in_flight == size // LEASE * LEASE
    return {"bytes": growth.highest}


def scheduled(size: int, directory: str) -> dict[str, float]:
    """Publish ``size`` messages with due times all over the next month."""
    random = Random(1)
    with penstock.open(directory) as broker:
        broker.create_topic("numbers", durability="os")
        for _ in range(WARM_UP):
            broker.publish_batch("numbers", [Message(VALUE, delay=3600)] * LEASE)
        growth = Growth()
        started = time.perf_counter()
        for number in range(size // LEASE):
            batch = [Message(VALUE, delay=random.uniform(3600, 30 * DAY_SECONDS)) for _ in range(LEASE)]
            broker.publish_batch("numbers", batch)
            if number % LOOK_EVERY == 0:
                growth.look()
        growth.look()
        seconds = time.perf_counter() - started
        assert broker.scheduled_count("numbers") == size // LEASE * LEASE + WARM_UP * LEASE
    return {"bytes": growth.highest, "write_seconds": seconds}


def numbers(size: int, _: str) -> dict[str, float]:
    """The limit of the three above: ``size`` numbers of 8 bytes, as bare as they can be kept."""
    growth = Growth()
    kept = array("q", range(size))
    growth.look()
    return {"bytes": growth.highest, "count": len(kept)}


def write_log(size: int, directory: str) -> dict[str, float]:
    """Write a log of ``size`` bytes, say so, and go on writing until somebody ends it."""
    broker = penstock.open(directory)
    broker.create_topic("numbers", durability="os", retention=None)
    broker.create_group("numbers", "readers")
    _write(broker, size - size // SINGLES_SHARE, BATCH)
    _write(broker, size, 1)  # What opening must check: the smaller the batches, the longer it takes.
    report({"bytes": broker.describe_topic("numbers").bytes})
    while True:
        broker.publish_batch("numbers", [VALUE])


def _write(broker: penstock.Broker, size: int, batch: int) -> None:
    while broker.describe_topic("numbers").bytes < size:
        for _ in range(10 * BATCH // batch):
            broker.publish_batch("numbers", [VALUE] * batch)


def open_log(size: int, directory: str) -> dict[str, float]:
    """Open what ``write-log`` left; the limit reads the last segment and checks its batches."""
    started = time.perf_counter()
    broker = penstock.open(directory)
    opened = time.perf_counter() - started
    info = broker.describe_topic("numbers")
    assert info.bytes >= size, "nothing is missing"
    started = time.perf_counter()
    checked = _check_last_segment(directory)
    report(
        {
            "seconds": opened,
            "limit_seconds": time.perf_counter() - started,
            "checked_bytes": checked,
            "bytes": info.bytes,
            "cut_bytes": info.partitions[0].cut_bytes,
        }
    )
    os._exit(0)  # As rude as a kill: the next one must recover as well.


def _check_last_segment(directory: str) -> int:
    paths = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(directory)
        for name in names
        if name.endswith(".log")
    ]
    data_folder = max((os.path.dirname(path) for path in paths), key=lambda folder: _size(paths, folder))
    last = max(path for path in paths if os.path.dirname(path) == data_folder)
    file = SystemFiles().open(last, create=False)
    position = 0
    data = b""
    at = 0
    while position + at < file.size:
        if at + 200_000 > len(data):
            position += at
            data = file.read(position, 8 * 1024 * 1024)
            at = 0
        at += check_batch(data, at).size
    file.close()
    return position + at


def _size(paths: list[str], folder: str) -> int:
    return sum(os.path.getsize(path) for path in paths if os.path.dirname(path) == folder)


def report(answer: dict[str, float]) -> None:
    """To the parent."""
    print(json.dumps(answer), flush=True)


WORK: dict[str, Callable[[int, str], dict[str, float]]] = {
    "backlog": backlog,
    "in-flight": in_flight,
    "scheduled": scheduled,
    "numbers": numbers,
    "write-log": write_log,
    "open-log": open_log,
}

if __name__ == "__main__":
    report(WORK[sys.argv[1]](int(sys.argv[2]), sys.argv[3]))
