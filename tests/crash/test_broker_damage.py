"""A byte that changed on disk is noticed: right data or a clear error, in every kind of file."""

from collections.abc import Iterator

import pytest

from penstock.errors import PenstockError
from penstock.log.files import MemoryFiles
from penstock.testing import ManualClock, TestBroker

VALUES = [b"message-%d" % number for number in range(40)]


def data_directory() -> tuple[MemoryFiles, ManualClock]:
    """A directory with every kind of file: two segments, lanes, journal, snapshot, digest, schedule."""
    files = MemoryFiles()
    clock = ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("orders", segment_bytes=4096)
        for number, value in enumerate(VALUES):
            broker.publish("orders", value, priority=number % 3 - 1, headers={"filler": "x" * 100})
        consumer = broker.consumer("orders", group="shipping", max_attempts=1)
        messages = consumer.receive(20)
        consumer.ack(messages[:10])
        messages[10].nack(error="no good")
        broker.publish("orders", b"later", delay="1h", dedup_id="later-1")
    return files, clock


def paths(files: MemoryFiles, directory: str = "data") -> Iterator[str]:
    for name in files.list(directory):
        path = f"{directory}/{name}"
        if files.list(path):
            yield from paths(files, path)
        else:
            yield path


def copy_of(files: MemoryFiles) -> MemoryFiles:
    copied = MemoryFiles()
    for path in paths(files):
        copied.write_file(path, files.read_file(path))
    return copied


def use(files: MemoryFiles, clock: ManualClock) -> None:
    """Read and consume everything; whatever comes must be right."""
    with TestBroker.open("data", files=files, clock=clock) as broker:
        for topic in broker.topics():
            for message in broker.read(topic, limit=1000):
                if topic == "orders":
                    assert message.value == VALUES[message.offset]
                else:
                    assert message.value in VALUES
        for entry in broker.scheduled("orders"):
            assert entry.value == b"later"
        for message in broker.consumer("orders", group="shipping").receive(100):
            assert message.value == VALUES[message.offset]


def every_path() -> list[str]:
    files, _ = data_directory()
    return sorted(paths(files))


@pytest.mark.parametrize("path", every_path())
def test_a_changed_byte_gives_right_data_or_a_clear_error(path: str) -> None:
    files, clock = data_directory()
    content = files.read_file(path)
    step = max(len(content) // 60, 1)
    for position in range(0, len(content), step):
        for change in (0x01, 0x80):
            damaged = copy_of(files)
            changed = bytearray(content)
            changed[position] ^= change
            damaged.write_file(path, bytes(changed))
            try:
                use(damaged, ManualClock(clock.steady_ms()))
            except PenstockError:
                continue


@pytest.mark.parametrize("path", every_path())
def test_a_file_cut_short_gives_right_data_or_a_clear_error(path: str) -> None:
    files, clock = data_directory()
    content = files.read_file(path)
    for size in range(0, len(content), max(len(content) // 40, 1)):
        damaged = copy_of(files)
        damaged.write_file(path, content[:size])
        try:
            use(damaged, ManualClock(clock.steady_ms()))
        except PenstockError:
            continue


def test_the_directory_without_damage_is_used_without_error() -> None:
    files, clock = data_directory()

    use(files, ManualClock(clock.steady_ms()))
