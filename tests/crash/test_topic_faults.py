"""A crash or an error at any file operation while a topic is made, grown or deleted: all of it or nothing."""

import os
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest

from penstock.errors import PenstockError, TopicNotFound
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import Crash, CrashDisk, Fault, FaultyFiles


class Act(NamedTuple):
    """What is done to the topics, and how many partitions ``old`` and ``new`` then have."""

    name: str
    do: Callable[[TestBroker], None]
    after: tuple[int, int]


BEFORE = (3, 0)
ACTS = [
    Act("create", lambda broker: broker.create_topic("new", partitions=5), (3, 5)),
    Act("grow", lambda broker: broker.alter_topic("old", partitions=6), (6, 0)),
    Act("delete", lambda broker: broker.delete_topic("old"), (0, 0)),
]


def prepared() -> CrashDisk:
    """A topic with a message, a group and a schedule."""
    disk = CrashDisk()
    with TestBroker.open("data", files=disk, clock=ManualClock()) as broker:
        broker.create_topic("old", partitions=3)
        broker.create_group("old", "work")
        broker.publish("old", b"kept", partition=1)
        broker.publish("old", b"later", partition=2, delay="1h")
    for path in list(disk._names):  # The disk does not know that names move with their directory.
        disk.sync_directory(os.path.dirname(path))
    return disk


def opened(files: CrashDisk | FaultyFiles) -> TestBroker:
    return TestBroker.open("data", files=files, clock=ManualClock())


def operations(act: Act) -> tuple[int, int]:
    """How many file operations come before the act, and how many with it."""
    files = FaultyFiles(prepared())
    broker = opened(files)
    before = len(files.operations)
    act.do(broker)
    return before, len(files.operations)


def look(disk: CrashDisk) -> tuple[int, int]:
    """The partitions of both topics, 0 for one that is not there; each is whole, and can be used."""
    with opened(disk) as broker:
        counts = []
        for name in ("old", "new"):
            try:
                count = len(broker.describe_topic(name).partitions)
            except TopicNotFound:
                counts.append(0)
                continue
            counts.append(count)
            for number in range(count):
                broker.publish(name, b"again", partition=number)
        if counts[0]:
            assert broker.read("old", partition=1)[0].value == b"kept"
            assert broker.scheduled_count("old") == 1
            assert broker.groups("old") == ["work"]
            consumer = broker.consumer("old", group="work")
            assert len(consumer.receive(100)) == counts[0] + 1
        assert not [name for name in disk.list("data/topics") if name.startswith(".")]
        return counts[0], counts[1]


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.name)
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.TEAR, Fault.AFTER])
@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
def test_a_crash_at_any_moment_leaves_a_whole_topic_or_none(act: Act, fault: Fault, power: bool) -> None:
    before, count = operations(act)
    found = set()
    for at in range(before + 1, count + 1):
        disk = prepared()
        files = FaultyFiles(disk, at=at, fault=fault)
        broker = opened(files)
        with pytest.raises(Crash):
            act.do(broker)
        disk.power_cut(Random(at)) if power else disk.kill()

        found.add(look(disk))

    assert found <= {BEFORE, act.after}
    assert power or act.after in found


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.name)
@pytest.mark.parametrize("fault", [Fault.FULL, Fault.FAIL])
def test_an_error_at_any_moment_leaves_a_whole_topic_or_none_and_the_act_can_be_tried_again(
    act: Act, fault: Fault
) -> None:
    before, count = operations(act)
    for at in range(before + 1, count + 1):
        disk = prepared()
        files = FaultyFiles(disk, at=at, fault=fault)
        broker = opened(files)
        try:
            act.do(broker)
        except PenstockError:
            present = set(broker.topics())
            files.heal()
            try:
                act.do(broker)
            except TopicNotFound:
                assert act.name == "delete"
                assert "old" not in present
        broker.close()
        disk.kill()

        assert look(disk) == act.after


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.name)
def test_what_was_answered_is_there_after_a_power_cut(act: Act) -> None:
    for seed in range(20):
        disk = prepared()
        broker = opened(disk)
        act.do(broker)
        disk.power_cut(Random(seed))

        assert look(disk) == act.after
