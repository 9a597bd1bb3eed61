"""The replay pipeline on a real broker and real Spark: what was, once more, and each message once."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.server.process import Server, until
from tests.spark.archived import archive

import penstock
from penstock.errors import InvalidValue, OffsetsMissing, PipelineFailed
from penstock.model.info import PipelineRun
from penstock.model.schemas import NewSchema
from penstock.spark.pipelines import replay
from penstock.spark.pipelines.replay import Settings
from penstock.spark.pipelines.run import runner
from penstock.spark.pipelines.run.settings import RunSettings
from penstock.spark.replay import snapshots
from penstock.spark.replay.plans import ReplayPlan
from penstock.spark.sink import sink
from penstock.testing import ManualClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

EARLY, LATE = datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose retention does not wait for a minute."""
    settings = {"PENSTOCK_BROKER__MAINTENANCE": "50ms"}
    with Server(tmp_path_factory.mktemp("served"), settings=settings) as running:
        yield running


class Replayer:
    """Runs the pipeline in this process."""

    def __init__(self, broker: penstock.Broker, servers: str, lake: Path) -> None:
        self.broker = broker
        self.servers = servers
        self.lake = str(lake)

    def run(self, name: str = "", **settings: Any) -> PipelineRun:
        run = RunSettings(name=name, master="local[2]")
        return runner.run(
            "replay", replay, run, Settings(**settings), self.broker, servers=self.servers, once=True
        )

    def half_deleted(self, topic: str, partitions: int = 1) -> datetime:
        """Forty messages, of which the first thirty are in the lake alone; returns a time after the tenth."""
        broker = self.broker
        broker.create_topic(topic, partitions=partitions, segment_bytes=4096)
        self.publish(topic, 0, 10, partitions)
        middle_ms = max(message.timestamp for message in broker.read(topic)) + 1
        until(lambda: broker.publish("clock", b"").timestamp > middle_ms)
        self.publish(topic, 10, 30, partitions)
        archive(broker, topic, self.lake)
        broker.alter_topic(topic, retention="1ms")
        until(lambda: all(each.start == each.end for each in broker.describe_topic(topic).partitions))
        broker.alter_topic(topic, retention="7d")
        self.publish(topic, 30, 40, partitions)
        return datetime.fromtimestamp(middle_ms / 1000, UTC)

    def publish(self, topic: str, start: int, end: int, partitions: int) -> None:
        for number in range(start, end):
            self.broker.publish(
                topic, b'{"number": %d}' % number, key=f"k{number % 3}", headers={"h": str(number)},
                priority="high" if number % 4 == 0 else "normal", partition=number % partitions,
            )  # fmt: skip


@pytest.fixture
def replayer(spark: "SparkSession", broker: penstock.Broker, servers: str, lake: Path) -> Replayer:
    if "clock" not in broker.topics():
        broker.create_topic("clock")
    return Replayer(broker, servers, lake)


def numbers(broker: penstock.Broker, topic: str) -> list[int]:
    return [int(message.value[11:-1]) for message in broker.read(topic, limit=1000)]


def test_lake_and_log_go_to_a_topic_each_message_once(
    replayer: Replayer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys, headers and lanes go along; a second run of a finished replay replays again."""
    broker = replayer.broker
    replayer.half_deleted("whole", partitions=2)

    done = replayer.run("whole-copy", topic="whole", to="whole.copy")

    assert (done.state, done.records, done.total) == ("done", 40, 40)
    assert "published 40 of 40 messages to whole.copy" in capsys.readouterr().out
    copies = broker.read("whole.copy", limit=1000)
    assert len(broker.describe_topic("whole.copy").partitions) == 2
    assert sorted(numbers(broker, "whole.copy")) == list(range(40))
    for copy in copies:
        number = int(copy.value[11:-1])
        assert (copy.key, copy.headers) == (f"k{number % 3}".encode(), {"h": str(number)})
        assert copy.priority == ("high" if number % 4 == 0 else "normal")
    for key in (b"k0", b"k1", b"k2"):
        for priority in ("high", "normal"):
            some = [int(c.value[11:-1]) for c in copies if (c.key, c.priority) == (key, priority)]
            for parity in (0, 1):  # In their partition they were in order, and still are.
                of_one = [number for number in some if number % 2 == parity]
                assert of_one == sorted(of_one)
    replayer.run("whole-copy", topic="whole", to="whole.copy")
    assert len(broker.read("whole.copy", limit=1000)) == 80
    assert snapshots.known(broker) == {}


def test_time_key_and_sql_choose(replayer: Replayer, capsys: pytest.CaptureFixture[str]) -> None:
    middle = replayer.half_deleted("chosen")
    where = "get_json_object(cast(value as string), '$.number') % 2 = 0"
    expected = [number for number in range(10, 40) if number % 3 == 1 and number % 2 == 0]

    replayer.run(topic="chosen", to="chosen.dry", from_time=middle, key="k1", where=where, dry_run=True)
    told = capsys.readouterr().out
    replayer.run(topic="chosen", to="chosen.some", from_time=middle, key="k1", where=where)
    replayer.run(topic="chosen", to="chosen.early", to_time=middle)

    assert told.startswith(f"{len(expected)} of ")
    assert f"partition 0: {len(expected)}" in told
    assert "chosen.dry" not in replayer.broker.topics()
    assert sorted(numbers(replayer.broker, "chosen.some")) == expected
    assert sorted(numbers(replayer.broker, "chosen.early")) == list(range(10))


def test_a_replay_that_was_killed_goes_on_and_repeats_nothing(
    replayer: Replayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before a chunk is published, after it was and before anybody heard, and between two."""
    broker = replayer.broker
    replayer.half_deleted("torn", partitions=2)
    monkeypatch.setattr(replay, "CHUNK_RECORDS", 9)
    publish = sink.publish
    wanted: dict[str, Any] = {"topic": "torn", "to": "torn.copy"}

    def dying(at: int, after: bool) -> None:
        def die(options: Any, staged: Any, application: str, version: int) -> bool:
            if version == at and not after:
                raise RuntimeError("killed")
            done = publish(options, staged, application, version)
            if version == at:
                raise RuntimeError("killed")
            return done

        monkeypatch.setattr("penstock.spark.replay.chunks.publish", die)

    for at, after in ((0, False), (0, True), (2, True), (3, False)):
        dying(at, after)
        with pytest.raises(PipelineFailed, match="killed"):
            replayer.run("torn", **wanted)
    with pytest.raises(InvalidValue, match="other settings"):
        replayer.run("torn", **wanted, key="k1")
    replayer.publish("torn", 40, 50, 2)  # Behind the end that was settled when the replay began.
    monkeypatch.setattr("penstock.spark.replay.chunks.publish", publish)
    done = replayer.run("torn", **wanted)

    assert (done.state, done.records) == ("done", 40)
    assert sorted(numbers(broker, "torn.copy")) == list(range(40))


def test_a_replay_stops_between_two_chunks(replayer: Replayer, monkeypatch: pytest.MonkeyPatch) -> None:
    replayer.half_deleted("stopped")
    monkeypatch.setattr(replay, "CHUNK_RECORDS", 9)
    keep = replay._Pace.keep

    def stop(self: Any, count: int) -> None:
        self._context.stopping.set()
        keep(self, count)

    monkeypatch.setattr(replay._Pace, "keep", stop)
    assert replayer.run("stopped", topic="stopped", to="stopped.copy").state == "stopped"
    assert len(numbers(replayer.broker, "stopped.copy")) == 9
    monkeypatch.setattr(replay._Pace, "keep", keep)
    assert replayer.run("stopped", topic="stopped", to="stopped.copy").state == "done"
    assert sorted(numbers(replayer.broker, "stopped.copy")) == list(range(40))


def test_a_group_gets_it_in_its_place(replayer: Replayer, capsys: pytest.CaptureFixture[str]) -> None:
    broker = replayer.broker
    middle = replayer.half_deleted("again")

    replayer.run(topic="again", group="audit", from_time=middle, dry_run=True)
    assert "30 messages: 20 from the lake, 10 in the log" in capsys.readouterr().out
    assert broker.groups("again") == []
    done = replayer.run(topic="again", group="audit", from_time=middle)

    assert (done.records, done.total) == (20, 20)
    received = broker.consumer("again", group="audit").receive(100)
    assert sorted(int(message.value[11:-1]) for message in received) == list(range(10, 40))


def test_sql_may_name_the_fields_of_a_schema(replayer: Replayer) -> None:
    broker = replayer.broker
    broker.create_topic("sold", partitions=1)
    schema = '{"properties": {"customer": {"type": "string"}, "total": {"type": "number"}}}'
    broker.register_schema("sold-value", NewSchema(type="JSON", schema=schema))
    values = [b'{"customer": "anna", "total": 3}', b'{"customer": "bob"}', b'{"customer": 7}']
    broker.publish_batch("sold", values)

    replayer.run(topic="sold", to="sold.some", where="total > 2")
    replayer.run(topic="sold", to="sold.bad", where="invalid is not null")

    assert [message.value for message in broker.read("sold.some")] == values[:1]
    assert [message.value for message in broker.read("sold.bad")] == values[2:]


def test_sql_chooses_while_another_session_is_active(replayer: Replayer, spark: "SparkSession") -> None:
    replayer.broker.publish_batch("elsewhere", [b"1", b"2"])
    spark.newSession().createDataFrame([], "number int")  # Which makes it the active session.

    replayer.run(topic="elsewhere", to="elsewhere.some", where="value = '2'")

    assert [message.value for message in replayer.broker.read("elsewhere.some")] == [b"2"]


def test_what_is_nowhere_is_named(replayer: Replayer) -> None:
    broker = replayer.broker
    replayer.half_deleted("holed")
    broker.alter_topic("holed", retention="1ms")
    until(lambda: broker.describe_topic("holed").partitions[0].start == 40)

    for target in ({"to": "holed.copy"}, {"group": "audit"}):
        with pytest.raises((OffsetsMissing, PipelineFailed), match="offsets 30 up to 40 of holed:0"):
            replayer.run(topic="holed", **target)
    replayer.run(topic="holed", to="holed.copy", on_gap="skip")  # Nothing was published under the old one.

    assert sorted(numbers(broker, "holed.copy")) == list(range(30))


def test_what_the_broker_had_added_is_left_behind(replayer: Replayer) -> None:
    broker = replayer.broker
    broker.create_topic("marked")
    broker.publish("marked", b"1", ttl="1ms", headers={"own": "x"})
    broker.publish("marked", b"2", dedup_id="two")

    replayer.run(topic="marked", to="marked.copy")

    copies = broker.read("marked.copy")
    assert sorted((copy.value, tuple(copy.headers.items())) for copy in copies) == [
        (b"1", (("own", "x"),)),
        (b"2", ()),
    ]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"topic": "a"}, "set either to or group"),
        ({"topic": "a", "to": "b", "group": "c"}, "set either to or group"),
        ({"topic": "a", "group": "b", "key": "k"}, "a group always gets all messages"),
        ({"topic": "a", "to": "b", "rate": 0.0}, "messages per second"),
        ({"topic": "a", "to": "b", "from_time": LATE, "to_time": EARLY}, "before from_time"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidValue, match=sentence):
        Settings(**settings)


def test_a_rate_is_kept() -> None:
    clock = ManualClock()
    waits: list[float] = []

    class Stopping(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0)
            clock.move_to(clock.steady_ms() + round((timeout or 0) * 1000))
            return False

    pace = replay._Pace(100, SimpleNamespace(clock=clock, stopping=Stopping()))  # type: ignore[arg-type]
    pace.keep(500)
    clock.move_to(clock.steady_ms() + 3000)
    pace.keep(500)
    clock.move_to(clock.steady_ms() + 60_000)
    pace.keep(500)

    assert waits == [5, 2, 0]


def test_the_chunks_are_the_range_in_order() -> None:
    plan = ReplayPlan(
        name="x", id="1", what="", topic="t", to="u", from_ms=None, to_ms=None,
        start={0: 3, 1: 0}, end={0: 20, 1: 5, 2: 4}, chunk_records=7,
    )  # fmt: skip

    chunks = list(plan.chunks())

    assert plan.records == 17 + 5 + 4
    assert all(0 < sum(map(len, chunk)) <= 7 for chunk in chunks)
    for partition, start, end in ((0, 3, 20), (1, 0, 5), (2, 0, 4)):
        spans = [span for chunk in chunks for span in chunk if span.partition == partition]
        assert [offset for span in spans for offset in range(span.start, span.end)] == list(range(start, end))
