"""Staged publishes: all of it, once, and what becomes of it when something is in the way."""

from pathlib import Path
from random import Random

import pytest
from tests.server.process import until
from tests.staged import batch, stage, values_of

from penstock.broker.journal import intents
from penstock.broker.publish import staging
from penstock.errors import (
    DelayOutOfRange,
    InvalidBatch,
    InvalidValue,
    PartitionNotFound,
    PenstockError,
    QueueFull,
    StagedMissing,
    TopicNotFound,
)
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk
from penstock.wire.records import DEDUP, EXPIRES, SCHEDULED, lane_attributes
from penstock.wire.staged import STAGING

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def broker(penstock: TestBroker) -> TestBroker:
    """A broker with a topic of two partitions."""
    penstock.create_topic("orders", partitions=2)
    return penstock


def test_what_is_staged_is_seen_when_it_is_published_and_in_its_order(broker: TestBroker) -> None:
    first = stage(broker, "t0", (0, batch([b"a", b"b"])), (1, batch([b"x"])))
    second = stage(broker, "t1", (0, batch([b"c"])))
    assert values_of(broker, "orders") == []

    done = broker.publish_staged("orders", "job", 0, {**second, **first})

    assert (done.published, done.duplicate) == (4, False)
    assert values_of(broker, "orders", 0) == [b"c", b"a", b"b"]
    assert values_of(broker, "orders", 1) == [b"x"]


def test_what_is_staged_is_written_to_the_disk_while_the_job_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "SYNC_BYTES", 1000)
    with TestBroker.open(str(tmp_path)) as broker:
        broker.create_topic("orders", partitions=2)
        stage(broker, "t", (0, batch([b"a"])))
        log = broker._core.state.topic(STAGING).partitions[0].log
        assert log.durable < log.written

        stage(broker, "t", (0, batch([bytes(1000)])))

        until(lambda: log.durable == log.written)


def test_a_version_is_published_once_and_a_lower_one_never(broker: TestBroker) -> None:
    assert broker.published_version("orders", "job") is None
    broker.publish_staged("orders", "job", 5, stage(broker, "t", (0, batch([b"five"]))))

    again = broker.publish_staged("orders", "job", 5, stage(broker, "t", (0, batch([b"again"]))))
    older = broker.publish_staged("orders", "job", 4, stage(broker, "t", (0, batch([b"older"]))))
    newer = broker.publish_staged("orders", "job", 6, stage(broker, "t", (0, batch([b"six"]))))
    other = broker.publish_staged("orders", "else", 5, stage(broker, "t", (0, batch([b"other"]))))

    assert [each.duplicate for each in (again, older, newer, other)] == [True, True, False, False]
    assert values_of(broker, "orders") == [b"five", b"six", b"other"]
    assert broker.published_version("orders", "job") == 6


def test_nothing_staged_is_a_version_too(broker: TestBroker) -> None:
    assert broker.publish_staged("orders", "job", 1, {}).published == 0
    assert broker.publish_staged("orders", "job", 1, {}).duplicate


def test_versions_are_known_after_a_kill() -> None:
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    broker.create_topic("orders")
    broker.publish_staged("orders", "job", 1, stage(broker, "t", (0, batch([b"a"]))))
    disk.kill()

    broker = TestBroker.open("data", files=disk)
    again = broker.publish_staged("orders", "job", 1, stage(broker, "t", (0, batch([b"b"]))))
    next_one = broker.publish_staged("orders", "job", 2, stage(broker, "t", (0, batch([b"c"]))))

    assert (again.duplicate, next_one.duplicate) == (True, False)
    assert values_of(broker, "orders") == [b"a", b"c"]


def test_versions_go_with_their_topic(broker: TestBroker) -> None:
    broker.publish_staged("orders", "job", 1, {})
    broker.delete_topic("orders")
    broker.create_topic("orders")

    assert broker.published_version("orders", "job") is None


@pytest.mark.parametrize(
    ("staged", "why"),
    [
        ({"other": [(0, 1)]}, "is not of 'other'"),
        ({"t": [(0, 2)]}, "offset 2"),
        ({"t": [(7, 8)]}, "offset 8"),
    ],
)
def test_what_is_not_staged_cannot_be_published(
    broker: TestBroker, staged: dict[str, list[tuple[int, int]]], why: str
) -> None:
    good = stage(broker, "t", (0, batch([b"a"])))

    with pytest.raises(StagedMissing, match=why):
        broker.publish_staged("orders", "job", 0, {"t": [*good["t"], *staged.get("t", [])], **staged})

    assert values_of(broker, "orders") == []
    assert broker.published_version("orders", "job") is None


@pytest.mark.parametrize(
    ("partition", "data", "error"),
    [
        (2, batch([b"a"]), PartitionNotFound),
        (0, b"nonsense", InvalidBatch),
        (0, batch([b"a"]) + b"more", InvalidValue),
        (0, batch([b"a"], DEDUP), InvalidBatch),
        (0, batch([b"a"], SCHEDULED), InvalidBatch),
        (0, batch([b"a"], EXPIRES, [("x-ttl", b"soon")]), InvalidBatch),
        (0, batch([b"a"], SCHEDULED, [("x-delay", b"%d" % (366 * DAY_MS))]), DelayOutOfRange),
    ],
)
def test_one_bad_batch_keeps_all_of_them_out(
    broker: TestBroker, partition: int, data: bytes, error: type[PenstockError]
) -> None:
    staged = stage(broker, "t", (0, batch([b"good"])), (partition, data))

    with pytest.raises(error):
        broker.publish_staged("orders", "job", 0, staged)

    assert values_of(broker, "orders") == []
    assert not broker.publish_staged("orders", "job", 0, {}).duplicate


@pytest.mark.parametrize(
    ("application", "version", "staged"),
    [("", 0, {}), (3, 0, {}), ("x" * 201, 0, {}), ("job", -1, {}), ("job", True, {}), ("job", 0, [1]),
     ("job", 0, {"t": [(3, 3)]})],
)  # fmt: skip
def test_wrong_arguments_are_named(
    broker: TestBroker, application: str, version: int, staged: dict[str, list[tuple[int, int]]]
) -> None:
    with pytest.raises(InvalidValue):
        broker.publish_staged("orders", application, version, staged)


def test_a_topic_that_is_not_there_is_named(penstock: TestBroker) -> None:
    with pytest.raises(TopicNotFound, match="orders"):
        stage(penstock, "t", (0, batch([b"a"])))
    with pytest.raises(TopicNotFound, match="orders"):
        penstock.publish_staged("orders", "job", 0, {})


def test_the_broker_makes_the_place_to_stage_in_as_durable_as_itself(
    penstock: TestBroker, tmp_path: Path
) -> None:
    with TestBroker.open(str(tmp_path)) as on_disk:
        for broker, durability in ((on_disk, "os"), (penstock, "memory")):
            broker.create_topic("orders")
            stage(broker, "t", (0, batch([b"a"])))
            stage(broker, "t", (0, batch([b"a"])))

            settings = broker.describe_topic(STAGING).settings
            assert (settings.durability, settings.retention_ms) == (durability, DAY_MS)
            assert STAGING not in broker.topics()


def test_lanes_delays_and_times_to_live_are_honoured(broker: TestBroker) -> None:
    now_ms = broker.clock.wall_ms()
    staged = stage(
        broker,
        "t",
        (0, batch([b"low"], lane_attributes(-1))),
        (0, batch([b"high"], lane_attributes(2))),
        (1, batch([b"short"], EXPIRES, [("own", b"1"), ("x-ttl", b"1000")])),
        (1, batch([b"late"], SCHEDULED | lane_attributes(1), [("x-delay", b"5000")])),
        (1, batch([b"both"], SCHEDULED | EXPIRES, [("x-ttl", b"2000"), ("x-delay", b"5000")])),
    )

    assert broker.publish_staged("orders", "job", 0, staged).published == 5

    taken = broker.consumer("orders", group="g").receive(10)
    assert [message.value for message in taken if message.partition == 0] == [b"high", b"low"]
    [short] = [message for message in taken if message.partition == 1]
    assert short.headers == {"own": "1"}
    assert short.raw_headers[-1] == ("x-expires-at", b"%d" % (now_ms + 1000))
    assert [entry.due_ms - now_ms for entry in broker.scheduled("orders")] == [5000, 5000]
    broker.advance("5s")
    late, both = broker.read("orders", partition=1, offset=1)
    assert (late.value, late.priority) == (b"late", "high")
    assert (both.value, dict(both.raw_headers)["x-expires-at"]) == (b"both", b"%d" % (now_ms + 7000))


def test_times_of_the_rows_are_kept_where_time_does_not_go_back(broker: TestBroker) -> None:
    now_ms = broker.clock.wall_ms()
    old_ms = now_ms - DAY_MS
    staged = stage(
        broker,
        "t",
        (0, batch([b"0", b"1"], times=[old_ms, old_ms + 3])),
        (0, batch([b"2", b"3"], times=[old_ms + 2, old_ms + 4])),  # 2 would go back.
        (0, batch([b"4"], times=[now_ms + DAY_MS])),  # Not yet.
        (0, batch([b"5"])),
    )

    broker.publish_staged("orders", "job", 0, staged)

    times = [message.timestamp for message in broker.read("orders")]
    assert times == [old_ms, old_ms + 3, old_ms + 3, old_ms + 4, now_ms, now_ms]


def test_rows_that_retention_would_delete_at_once_are_refused(broker: TestBroker) -> None:
    old = batch([b"old"], times=[broker.clock.wall_ms() - 8 * DAY_MS])
    staged = stage(broker, "t", (0, old))

    with pytest.raises(InvalidValue, match="keeps messages for 7d, and would delete this one at once"):
        broker.publish_staged("orders", "job", 0, staged)

    broker.publish("orders", b"new", partition=0)  # Behind it, the old one is as new.
    broker.publish_staged("orders", "job", 0, staged)
    broker.advance("5m")
    assert values_of(broker, "orders") == [b"new", b"old"]


def test_a_topic_that_gives_records_its_own_time_gives_it_to_staged_ones_too(broker: TestBroker) -> None:
    broker.create_topic("stamped", append_time=True)
    staged = stage(broker, "t", (0, batch([b"a", b"b"], times=[1000, 2000])), topic="stamped")
    now_ms = broker.publish("stamped", b"first").timestamp

    broker.publish_staged("stamped", "job", 0, staged)  # Though retention would delete what is so old.

    assert [message.timestamp for message in broker.read("stamped")] == [now_ms] * 3


def test_a_topic_that_is_full_refuses_before_anything_is_decided(broker: TestBroker) -> None:
    broker.create_topic("small", depth_max=2)
    broker.publish_staged("small", "job", 0, stage(broker, "t", (0, batch([b"a", b"b", b"c"]))))
    staged = stage(broker, "t", (0, batch([b"d"])))

    with pytest.raises(QueueFull):
        broker.publish_staged("small", "job", 1, staged)

    consumer = broker.consumer("small", group="g")
    consumer.ack(consumer.receive(3))
    assert not broker.publish_staged("small", "job", 1, staged).duplicate


def test_a_schedule_that_is_full_refuses_before_anything_is_decided(broker: TestBroker) -> None:
    broker.create_topic("small", scheduled_max=1)
    delayed = batch([b"a"], SCHEDULED, [("x-delay", b"1000")])

    with pytest.raises(QueueFull, match="schedule"):
        broker.publish_staged("small", "job", 0, stage(broker, "t", (0, delayed), (0, delayed)))


def test_the_application_that_has_not_published_for_longest_is_forgotten(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intents, "APPLICATIONS_MAX", 2)
    for application in ("a", "b", "a", "c"):
        broker.publish_staged("orders", application, len(values_of(broker, "orders")), {})
        broker.publish("orders", b"x")

    known = {name: broker.published_version("orders", name) for name in "abc"}
    assert known == {"a": 2, "b": None, "c": 3}


def test_intents_take_little_room_however_many_there_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intents, "SEGMENT_BYTES", 4096)
    broker = TestBroker.open(str(tmp_path))
    broker.create_topic("orders")
    for version in range(200):
        broker.publish_staged("orders", "job", version, stage(broker, "t", (0, batch([b"%d" % version]))))
        broker.publish_staged("orders", f"other-{version % 3}", version, {})
    files = list((tmp_path / "topics/orders/intents").glob("*.log"))
    assert sum(file.stat().st_size for file in files) < 3 * 4096
    broker.close()

    broker = TestBroker.open(str(tmp_path))
    assert broker.published_version("orders", "job") == 199
    assert broker.published_version("orders", "other-0") == 198
    assert broker.publish_staged("orders", "job", 199, {}).duplicate
    assert values_of(broker, "orders") == [b"%d" % version for version in range(200)]


def test_numbers_do_not_come_round(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intents, "NUMBERS_MAX", 5)
    for version in range(4):
        broker.publish_staged("orders", "job", version, stage(broker, "t", (0, batch([b"a", b"b"]))))

    assert values_of(broker, "orders") == [b"a", b"b"] * 4


def test_staging_is_cleared_of_what_was_published(broker: TestBroker) -> None:
    unnamed = stage(broker, "failed", (0, batch([b"x" * 1000])))
    broker.alter_topic(STAGING, segment_bytes=4096)
    for version in range(20):
        broker.publish_staged("orders", "job", version, stage(broker, "t", (0, batch([b"x" * 1000]))))
    assert broker.describe_topic(STAGING).partitions[0].start == 0  # A task that failed is in the way ...

    broker.publish_staged("orders", "job", 20, unnamed)
    assert broker.describe_topic(STAGING).partitions[0].start > 15  # ... until it is not.


def test_staging_is_cleared_after_a_day_in_any_case() -> None:
    clock = ManualClock()
    broker = TestBroker.open("data", files=CrashDisk(), clock=clock)
    broker.create_topic("orders")
    staged = stage(broker, "t", (0, batch([b"a"])))

    broker.advance("25h")

    with pytest.raises(StagedMissing, match="run the job again"):
        broker.publish_staged("orders", "job", 0, staged)


def test_a_caller_that_gives_up_after_the_decision_has_decided(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it waits for when it goes: it is all there or nothing is, and what is decided is finished."""
    monkeypatch.setattr(staging, "TURN_BYTES", 1)
    outcomes = set()
    for steps_taken in range(1, 12):
        application = f"job-{steps_taken}"
        name = b"%d" % steps_taken
        staged = stage(
            broker,
            "t",
            (0, batch([name])),
            (1, batch([name])),
            (1, batch([name], SCHEDULED, [("x-delay", b"1000")])),
        )
        steps = broker._core.staging.publish("orders", application, 0, staged)
        for _ in range(steps_taken):
            next(steps, None)
        steps.close()
        broker.advance("3s")
        found = values_of(broker, "orders").count(name)
        decided = broker.published_version("orders", application) == 0
        assert found == (3 if decided else 0)
        assert decided == broker.publish_staged("orders", application, 0, staged).duplicate
        broker.advance("3s")
        assert values_of(broker, "orders").count(name) == 3
        outcomes.add(decided)
    assert outcomes == {False, True}


def test_two_callers_with_one_version_publish_it_once(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second finds the first at it, whichever step that is at, and waits or is told."""
    monkeypatch.setattr(staging, "TURN_BYTES", 1)
    for lead in range(1, 12):
        staged = stage(broker, "t", (0, batch([b"%d" % lead])), (1, batch([b"%d" % lead])))
        first = broker._core.staging.publish("orders", "job", lead, staged)
        for _ in range(lead):
            next(first, None)
        first.close()

        broker.publish_staged("orders", "job", lead, staged)

        assert values_of(broker, "orders").count(b"%d" % lead) == 2


def test_staging_in_memory_is_not_trusted_with_what_is_to_last(tmp_path: Path) -> None:
    with TestBroker.open(str(tmp_path)) as broker:
        broker.create_topic("orders")
        broker.create_topic(STAGING, durability="memory")
        with pytest.raises(InvalidValue, match="in memory"):
            broker.publish_staged("orders", "job", 0, {})


def test_a_job_does_not_wait_for_the_disk_of_a_topic_that_does_not_either() -> None:
    """Readers have what it published, and so they have after a crash: the intent is on the disk."""
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    broker.create_topic("orders", durability="os")
    published = broker.publish_staged("orders", "job", 1, stage(broker, "t", (0, batch([b"a"]))))

    intents = broker._core.state.topic("orders").intents
    assert intents is not None
    assert (published.published, values_of(broker, "orders")) == (1, [b"a"])
    assert list(intents.pending) == list(intents.placed) == ["job"]

    disk.power_cut(Random(7))
    broker = TestBroker.open("data", files=disk)
    assert values_of(broker, "orders") == [b"a"]
    assert broker.publish_staged("orders", "job", 1, stage(broker, "t", (0, batch([b"b"])))).duplicate


def test_the_next_version_of_such_a_job_ends_the_one_before() -> None:
    with TestBroker.open("data", files=CrashDisk()) as broker:
        broker.create_topic("orders", durability="os")
        for version in (1, 2):
            broker.publish_staged("orders", "job", version, stage(broker, "t", (0, batch([b"%d" % version]))))
        intents = broker._core.state.topic("orders").intents
        assert intents is not None
        assert [each.version for each in intents.pending.values()] == [2]

        broker.advance("1s")

        assert (intents.pending, intents.placed) == ({}, {})
        assert values_of(broker, "orders") == [b"1", b"2"]
