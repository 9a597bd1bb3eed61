"""One result out of the results of several nodes."""

import msgspec
import pytest

from penstock.broker.observability.measuring import Distribution, Family
from penstock.broker.observability.metrics import counter, gauge, histogram
from penstock.cluster.routing import merging
from penstock.cluster.routing.merging import WORST, Merging
from penstock.model.info import (
    DeadLetterErrors,
    GroupInfo,
    GroupRates,
    PartitionLag,
    Unacked,
    Verdict,
    VerdictWord,
)
from penstock.model.message import StoredMessage
from penstock.wire.records import Record


def owner(_: str, partition: int) -> int:
    """Even partitions are at node 0, odd ones at node 1."""
    return partition % 2


def message(partition: int, offset: int, time: int, value: bytes = b"") -> StoredMessage:
    return StoredMessage("orders", partition, Record(offset, time, None, value, [], 0))


def read_of(limit: int, bytes_max: int = 1 << 30) -> Merging:
    return Merging(owner, ("orders", None, None, None, None, limit), bytes_max)


def test_messages_are_in_the_order_of_their_times() -> None:
    found = {0: [message(0, 0, 10), message(0, 1, 30)], 1: [message(1, 0, 20), message(1, 1, 40)]}

    assert [each.timestamp for each in merging.read(found, read_of(3))] == [10, 20, 30]
    peeked = merging.peek(found, Merging(owner, ("orders", 3, None)))
    assert [each.timestamp for each in peeked] == [20, 30, 40]


def test_nothing_is_missing_before_the_last_message_of_a_node_that_may_have_more() -> None:
    found = {0: [message(0, 0, 10, bytes(100)), message(0, 1, 30)], 1: [message(1, 0, 20), message(1, 1, 40)]}

    # Node 0 has returned all that fits, so it may have others from before 40.
    assert [each.timestamp for each in merging.read(found, read_of(10, bytes_max=100))] == [10, 20, 30]
    assert [each.timestamp for each in merging.read(found, read_of(10, bytes_max=101))] == [10, 20, 30, 40]


def test_offsets_and_counts_are_those_of_the_owner() -> None:
    found = {0: {0: 5, 1: 0}, 1: {0: 0, 1: 7}}

    assert merging.by_partition(found, Merging(owner, ("orders", "latest", False))) == {0: 5, 1: 7}
    places = {
        node: {("orders", number): each for number, each in mine.items()} for node, mine in found.items()
    }
    assert merging.waiting(places, Merging(owner, ())) == {("orders", 0): 5, ("orders", 1): 7}


def test_lanes_add_up() -> None:
    assert merging.lanes({0: {"normal": 1}, 1: {"high": 2, "normal": 3}}, Merging(owner, ())) == {
        "normal": 4,
        "high": 2,
    }


def group(node: int, word: VerdictWord, lag: int, age: float, drain: float | None) -> GroupInfo:
    unacked = Unacked(
        id=f"orders:{node}:0",
        age_seconds=age,
        attempts=1,
        failures=0,
        error="",
        consumer=None,
        due_seconds=None,
        behind=0,
    )
    return GroupInfo(
        topic="orders",
        group="billing",
        kind="queue",
        verdict=Verdict(word=word, text=f"node {node}"),
        lag=lag,
        lag_seconds=age,
        drain_seconds=drain,
        in_flight=1,
        waiting_retry=2,
        oldest_unacked=unacked if age else None,
        rates=GroupRates(published=1.0, delivered=2.0, acked=3.0, failed=0.0, dead_lettered=0.0),
        consumers=["worker", f"only-{node}"],
        lost=0,
        delivered=4,
        acked=3,
        nacked=1,
        timed_out=0,
        dead_lettered=0,
        expired=0,
        partitions=[
            PartitionLag(
                partition=number, journal_group=1, floor=0, end=lag, lag=lag, in_flight=0, waiting_retry=0
            )
            for number in (node, 1 - node)
        ],
    )


def test_a_group_has_the_lag_of_all_and_the_verdict_of_the_worst() -> None:
    found = {0: group(0, "idle", 0, 0.0, 0.0), 1: group(1, "falling behind", 9, 33.0, None)}

    merged = merging.group_info(found, Merging(owner, ("orders", "billing")))

    assert (merged.lag, merged.lag_seconds, merged.drain_seconds) == (9, 33.0, None)
    assert (merged.verdict.word, merged.verdict.text) == ("falling behind", "node 1")
    assert merged.oldest_unacked is not None
    assert merged.oldest_unacked.id == "orders:1:0"
    assert merged.consumers == ["only-0", "only-1", "worker"]
    assert [(each.partition, each.lag) for each in merged.partitions] == [(0, 0), (1, 9)]
    assert (merged.delivered, merged.in_flight, merged.waiting_retry) == (8, 2, 4)
    assert (merged.rates.published, merged.rates.acked) == (2.0, 6.0)


def test_a_group_without_consumers_says_how_many_messages_wait_on_all_nodes() -> None:
    found = {0: group(0, "no consumers", 31, 5.0, None), 1: group(1, "no consumers", 1, 33.0, None)}

    merged = merging.group_info(found, Merging(owner, ("orders", "billing")))

    assert str(merged.verdict) == "no consumers: 32 messages are waiting; no consumer is connected"


def test_every_verdict_has_its_place() -> None:
    assert sorted(WORST) == sorted(msgspec.json.schema(VerdictWord)["enum"])


def test_errors_of_dead_letters_are_counted_over_all_nodes() -> None:
    def errors(fingerprint: str, count: int, first: int, last: int, group: str) -> DeadLetterErrors:
        return DeadLetterErrors(
            topic="orders",
            fingerprint=fingerprint,
            error_class="KeyError",
            error=f"at {last}",
            reason="nacked",
            groups=[group],
            count=count,
            first_seen_ms=first,
            last_seen_ms=last,
            dead_letter="orders.dlq:0:0",
            source="orders:0:0",
        )

    found = {
        0: [errors("a", 2, 10, 20, "billing"), errors("b", 4, 1, 2, "billing")],
        1: [errors("a", 3, 5, 30, "shipping")],
    }

    merged = merging.dead_letter_errors(found, Merging(owner, (None,)))

    assert [(each.fingerprint, each.count) for each in merged] == [("a", 5), ("b", 4)]
    assert (merged[0].first_seen_ms, merged[0].last_seen_ms, merged[0].error) == (5, 30, "at 30")
    assert merged[0].groups == ["billing", "shipping"]


@pytest.mark.parametrize(
    ("metric", "one", "other", "both"),
    [
        (counter("penstock_topic_published_total", "", len), 1.0, 2.0, 3.0),
        (gauge("penstock_group_lag", "", len), 1.0, 2.0, 3.0),
        (gauge("penstock_group_lag_seconds", "", len), 1.0, 2.0, 2.0),
        (gauge("penstock_group_consumers", "", len), 2.0, 2.0, 2.0),
        (
            histogram("penstock_queue_latency_seconds", "", len),
            Distribution([(1.0, 1), (float("inf"), 2)], 3.0),
            Distribution([(1.0, 0), (float("inf"), 5)], 9.0),
            Distribution([(1.0, 1), (float("inf"), 7)], 12.0),
        ),
    ],
)
def test_samples_add_up_unless_they_are_ages(
    metric: object, one: object, other: object, both: object
) -> None:
    mine = Family(metric, ("topic",), [(("orders",), one)])  # type: ignore[arg-type]
    theirs = (mine.metric.name, ("topic",), [(("orders",), other), (("theirs",), other)])

    [merged] = merging.metrics([mine], [theirs])  # type: ignore[list-item]

    assert dict(merged.samples) == {("orders",): both, ("theirs",): other}


def test_metrics_of_the_server_stay_those_of_the_node() -> None:
    mine = Family(gauge("penstock_connections", "", len), (), [((), 1.0)])

    assert merging.metrics([mine], [("penstock_connections", (), [((), 5.0)])]) == [mine]
