"""What a broker measures, and that it is right."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.broker.health.loop_lag import STALL_MS
from penstock.broker.observability.measuring import Distribution, Family
from penstock.broker.observability.metrics import OF_BROKER, OF_GROUP, OF_TOPIC, SECTIONS
from penstock.config.broker import BrokerConfig
from penstock.errors import Closed, MetricsDisabled, SchemaMismatch, StorageFailed
from penstock.model.info import BrokerInfo
from penstock.model.schemas import NewSchema
from penstock.operations.consumers import ConsumerOptions
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk, Fault, FaultyFiles

Read = Callable[..., Any]


def families(broker: TestBroker) -> dict[str, Family]:
    found = broker._driver.run(broker._local.metrics())
    return {family.metric.name: family for family in found}


def read(broker: TestBroker, name: str, *labels: str) -> Any:
    """The value of the series with these labels; None if there is none."""
    return dict(families(broker)[f"penstock_{name}"].samples).get(labels)


def count(distribution: Distribution) -> int:
    return distribution.buckets[-1][1]


def test_names_are_unique_and_say_their_kind() -> None:
    metrics = [metric for section in SECTIONS for metric in section.metrics]
    names = [metric.name for metric in metrics]

    assert len(set(names)) == len(names)
    for metric in metrics:
        assert re.fullmatch(r"(penstock|process)_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.meaning.endswith(".")


def test_a_topic_counts_what_comes_in(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)
    penstock.publish("orders", b"a", dedup_id="1")
    penstock.publish("orders", b"a", dedup_id="1")
    penstock.publish_batch("orders", [b"x" * 1000] * 3)
    penstock.publish("orders", b"later", delay="1h")

    assert read(penstock, "topic_published_total", "orders") == 4
    assert read(penstock, "topic_duplicates_total", "orders") == 1
    assert read(penstock, "topic_scheduled", "orders") == 1
    assert read(penstock, "topic_messages", "orders") == 4
    assert read(penstock, "topic_depth", "orders") == 4
    assert 3000 < read(penstock, "topic_bytes", "orders") < 3500
    assert read(penstock, "topic_published_bytes_total", "orders") == read(penstock, "topic_bytes", "orders")


def test_a_topic_counts_invalid_messages_and_open_transactions(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2, validation="reject")
    penstock.register_schema("orders-value", NewSchema(schema='{"type": "object"}', type="JSON"))
    with pytest.raises(SchemaMismatch):
        penstock.publish("orders", b"1")
    penstock.publish("orders", b"{}")
    assert read(penstock, "topic_invalid_total", "orders") == 1
    assert read(penstock, "topic_open_transactions", "orders") == 0

    with penstock.transaction() as transaction:
        transaction.publish("orders", b"{}")
        assert read(penstock, "topic_open_transactions", "orders") == 1

    assert read(penstock, "topic_open_transactions", "orders") == 0


def test_a_group_counts_deliveries_and_answers(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 5)
    with penstock.consumer("orders", group="billing", backoff=["1s"], visibility_timeout="30s") as consumer:
        messages = consumer.receive(3)
        consumer.ack(messages[:1])
        consumer.nack(messages[1])

        assert read(penstock, "group_delivered_total", "orders", "billing") == 3
        assert read(penstock, "group_acked_total", "orders", "billing") == 1
        assert read(penstock, "group_nacked_total", "orders", "billing") == 1
        assert read(penstock, "group_in_flight", "orders", "billing") == 1
        assert read(penstock, "group_waiting_retry", "orders", "billing") == 1
        assert read(penstock, "group_lag", "orders", "billing") == 4
        assert read(penstock, "group_consumers", "orders", "billing") == 1

        penstock.advance("40s")
        assert read(penstock, "group_timed_out_total", "orders", "billing") == 1
        assert read(penstock, "group_lag_seconds", "orders", "billing") == 40
        assert read(penstock, "group_redelivered_total", "orders", "billing") == 0

        consumer.receive(2)
        assert read(penstock, "group_redelivered_total", "orders", "billing") == 2


def test_dead_letters_are_counted_by_what_befell_them(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 4)
    with penstock.consumer("orders", group="billing", max_attempts=1, visibility_timeout="30s") as consumer:
        first, second, third, _ = consumer.receive(4)
        consumer.nack(first)
        consumer.reject(second, "no good")
        consumer.reject(third, "no good")
        penstock.advance("1m")

    assert read(penstock, "group_dead_lettered_total", "orders", "billing", "expired") == 0
    assert read(penstock, "group_dead_lettered_total", "orders", "billing", "nacked") == 1
    assert read(penstock, "group_dead_lettered_total", "orders", "billing", "rejected") == 2
    assert read(penstock, "group_dead_lettered_total", "orders", "billing", "visibility timeout") == 1


@pytest.mark.parametrize("kind", ["queue", "stream"])
def test_queue_latency_is_how_long_messages_waited_for_their_first_delivery(
    penstock: TestBroker, kind: Any
) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 3)
    penstock.advance("2s")
    with penstock.consumer("orders", group="billing", kind=kind) as consumer:
        consumer.receive(3)
        penstock.publish("orders", b"y")
        consumer.receive(1)

        waited = read(penstock, "queue_latency_seconds", "orders", "billing")

    assert (count(waited), waited.sum) == (4, 6.0)
    assert dict(waited.buckets)[0.001] == 1
    assert dict(waited.buckets)[1.0] == 1
    assert dict(waited.buckets)[2.5] == 4


@pytest.mark.parametrize("kind", ["queue", "stream"])
def test_batches_that_are_passed_on_as_they_are_count_too(penstock: TestBroker, kind: Any) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 100)
    penstock.advance("2s")
    operations = penstock._local
    consumer = penstock._driver.run(
        operations.batch_consumer("orders", "billing", ConsumerOptions(group={"kind": kind}))
    )

    [lent] = penstock._driver.run(consumer.receive(100, 0))

    waited = read(penstock, "queue_latency_seconds", "orders", "billing")
    assert (lent.end, count(waited), waited.sum) == (100, 100, 200.0)


def test_a_redelivery_is_not_in_the_queue_latency(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    with penstock.consumer("orders") as consumer:
        consumer.nack(consumer.receive()[0], delay="10s")
        consumer.receive(wait="1m")

        assert count(read(penstock, "queue_latency_seconds", "orders", "default")) == 1


def test_a_scheduled_message_waits_from_when_it_was_due(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", delay="1h")
    with penstock.consumer("orders") as consumer:
        consumer.receive(wait="2h")

        assert read(penstock, "queue_latency_seconds", "orders", "default").sum < 2


def test_a_group_has_its_verdict_and_no_other(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.create_group("orders", "billing")
    penstock.publish("orders", b"x")

    verdicts = dict(families(penstock)["penstock_group_verdict"].samples)

    assert verdicts == {("orders", "billing", penstock.describe_group("orders", "billing").verdict.word): 1}


def test_syncs_and_those_who_wait_for_them_are_counted() -> None:
    with TestBroker.open("data", files=CrashDisk(), clock=ManualClock()) as broker:
        broker.create_topic("orders")
        for _ in range(3):
            broker.publish("orders", b"x")

        assert count(read(broker, "fsync_seconds")) == 3
        assert (count(read(broker, "commit_waiters")), read(broker, "commit_waiters").sum) == (3, 3)


def test_what_is_in_memory_is_never_synced() -> None:
    with TestBroker.open("data", files=CrashDisk(), clock=ManualClock()) as broker:
        broker.create_topic("orders")
        broker.create_topic("cache", durability="memory")
        broker.publish("cache", b"x", delay="1h")
        broker.publish("orders", b"x")  # A round for all that is not synced.

        assert count(read(broker, "fsync_seconds")) == 1


async def test_those_who_publish_at_the_same_time_wait_for_the_same_round(tmp_path: Path) -> None:
    async with await EmbeddedAsyncBroker.open(str(tmp_path)) as broker:
        await broker.create_topic("orders")
        await asyncio.gather(*(broker.publish("orders", b"x") for _ in range(8)))

        found = {family.metric.name: family for family in await broker.run(broker.operations.metrics())}

    [(_, waiters)] = found["penstock_commit_waiters"].samples
    assert (count(waiters), waiters.sum) == (1, 8)


def test_a_log_that_failed_is_counted() -> None:
    files = FaultyFiles(CrashDisk())
    with TestBroker.open("data", files=files, clock=ManualClock()) as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"x")
        assert read(broker, "logs_failed") == 0
        files.fail_next(Fault.FAIL, lasting=True)
        with pytest.raises(StorageFailed):
            broker.publish("orders", b"x")
        files.heal()

        assert read(broker, "logs_failed") == 1


def test_the_broker_tells_what_it_is_and_how_much_it_has(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=3)
    penstock.consumer("orders")
    penstock.advance("90s")
    info: BrokerInfo = penstock.stats()

    assert read(penstock, "build_info", info.version, str(info.compiled).lower()) == 1
    assert read(penstock, "uptime_seconds") == 90
    assert [read(penstock, name) for name in ("topics", "partitions", "groups", "consumers")] == [1, 3, 1, 1]


def test_names_beyond_the_limit_are_left_out_and_told() -> None:
    with TestBroker.open(config=BrokerConfig(metrics_names_max=2)) as broker:
        for topic in ("c", "b", "a"):
            broker.create_topic(topic)
            broker.create_group(topic, "one")
            broker.create_group(topic, "two")
        found = families(broker)

        assert [labels for labels, _ in found["penstock_topic_depth"].samples] == [("c",), ("b",)]
        assert [labels for labels, _ in found["penstock_group_lag"].samples] == [("c", "one"), ("c", "two")]
        assert dict(found["penstock_left_out"].samples) == {("topics",): 1, ("groups",): 4}
        assert read(broker, "topics") == 3


def test_what_belongs_to_the_broker_itself_has_no_series(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.create_topic("__pipelines")
    penstock.publish("orders", b"x")
    penstock.consumer("orders").receive()[0].reject("no")
    penstock.redrive("orders")
    found = families(penstock)

    assert {labels[0] for labels, _ in found["penstock_topic_depth"].samples} == {"orders", "orders.dlq"}
    assert {labels[1] for labels, _ in found["penstock_group_lag"].samples} == {"default"}


def test_every_metric_has_its_samples(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    penstock.consumer("orders").receive()[0].reject("no")
    found = families(penstock)

    assert list(found) == [m.name for section in (OF_BROKER, OF_TOPIC, OF_GROUP) for m in section.metrics]
    for family in found.values():
        assert family.samples
        for labels, _ in family.samples:
            assert len(labels) == len(family.labels)


def test_others_have_a_turn_and_what_goes_meanwhile_is_left_out(penstock: TestBroker) -> None:
    for topic in ("orders", "bills"):
        penstock.create_topic(topic)
        penstock.create_group(topic, "one")
    steps = penstock._local.metrics()
    next(steps)
    penstock.delete_topic("bills")
    penstock.delete_group("orders", "one")

    found = {family.metric.name: family for family in penstock._driver.run(steps)}

    assert [labels for labels, _ in found["penstock_topic_depth"].samples] == [("orders",)]
    assert found["penstock_group_lag"].samples == []
    assert dict(found["penstock_left_out"].samples)["groups",] == 0


def test_a_broker_that_is_closed_meanwhile_says_so(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.create_topic("bills")
    steps = penstock._local.metrics()
    next(steps)
    penstock.close()

    with pytest.raises(Closed):
        next(steps)


def test_metrics_can_be_switched_off() -> None:
    with TestBroker.open(config=BrokerConfig(metrics=False)) as broker, pytest.raises(MetricsDisabled):
        families(broker)


def test_metrics_are_kept_for_their_interval() -> None:
    with TestBroker.open(config=BrokerConfig(metrics_interval_ms=10_000)) as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"a")
        first = read(broker, "topic_published_total", "orders")
        broker.publish("orders", b"b")
        broker.advance("9s")
        kept = read(broker, "topic_published_total", "orders")
        broker.advance("1s")

        assert (first, kept, read(broker, "topic_published_total", "orders")) == (1, 1, 2)


def test_stalls_of_the_event_loop_are_counted_and_the_longest_is_told(penstock: TestBroker) -> None:
    lag = penstock._core.state.lag
    for lag_ms in (STALL_MS / 2, STALL_MS + 1, 1500.0):
        lag.note(lag_ms, now_ms=0)

    assert read(penstock, "event_loop_stalls_total") == 2
    assert read(penstock, "event_loop_lag_max_seconds") == 1.5
