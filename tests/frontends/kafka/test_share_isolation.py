"""share.isolation.level: which messages of transactions a share group delivers, and when."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.frontends.kafka.clients import publish
from tests.frontends.kafka.conftest import Server, serving
from tests.frontends.kafka.raw import Raw
from tests.frontends.kafka.test_admin import alter, described
from tests.frontends.kafka.test_share_apis import ACCEPT, RELEASE, WAIT_MS, beat, fetch, fetching, lines, made
from tests.frontends.kafka.test_share_offsets import described as described_offsets
from tests.frontends.kafka.test_transactions import TIMEOUT_S, transactional

from penstock.wire.kafka.messages.groups import share
from penstock.wire.records import CONTROL, decode_batch, read_header

LEVEL = "share.isolation.level"
End = Callable[[Producer], None]


def contents(answer: share.ShareFetchResponse) -> list[bytes | None]:
    """The values of all records in the answer, none of which is a marker."""
    found: list[bytes | None] = []
    for part in (part for topic in answer.responses for part in topic.partitions):
        data, at = bytes(part.records or b""), 0
        while at < len(data):
            header = read_header(data, at)
            assert not header.attributes & CONTROL
            found += [record.value for record in decode_batch(data, at)]
            at += header.size
    return found


def write(producer: Producer, *contents: bytes, topic: str = "orders") -> None:
    for value in contents:
        producer.produce(topic, value, partition=0)
    producer.flush(TIMEOUT_S)


def begun(kafka: Server, *contents: bytes, name: str = "t") -> Producer:
    """A producer with an open transaction."""
    producer = transactional(kafka, name)
    producer.begin_transaction()
    write(producer, *contents)
    return producer


def commit(producer: Producer) -> None:
    producer.commit_transaction(TIMEOUT_S)


def abort(producer: Producer) -> None:
    producer.abort_transaction(TIMEOUT_S)


def read(raw: Raw, level: str) -> None:
    assert alter(raw, "billing", {LEVEL: level}) == 0


def test_uncommitted_messages_reach_a_waiting_consumer_before_the_commit(kafka: Server) -> None:
    orders = made(kafka)
    with Raw(kafka) as raw, Raw(kafka) as admin:
        read(admin, "read_uncommitted")
        beat(raw, 0, "orders")
        raw.send(fetching(0, orders, wait_ms=10 * WAIT_MS), 1)

        producer = begun(kafka, b"one", b"two")

        first = raw.hear(share.ShareFetchResponse)
        rest = fetch(raw, 1, orders) if lines(first)[-1][1] == 0 else None
        assert contents(first) + (contents(rest) if rest else []) == [b"one", b"two"]
        commit(producer)
        publish(kafka, [b"three"])
        assert contents(fetch(raw, 2 if rest else 1, orders, (0, 1, [ACCEPT]))) == [b"three"]


@pytest.mark.parametrize("records", [1, 2, 100])
def test_aborted_messages_are_delivered_as_uncommitted_and_markers_never(kafka: Server, records: int) -> None:
    orders = made(kafka)
    for number, end in enumerate((abort, commit, abort)):
        end(begun(kafka, *[b"%d.%d" % (number, place) for place in range(5)], name=f"t{number}"))
        publish(kafka, [b"%d.plain" % number])
    wanted = [b"%d.%d" % (number, place) for number in range(3) for place in range(5)]
    wanted += [b"%d.plain" % number for number in range(3)]
    got: list[bytes | None] = []
    with Raw(kafka) as raw:
        read(raw, "read_uncommitted")
        beat(raw, 0, "orders")
        [before] = described_offsets(raw, ("orders", [0])).topics[0].partitions
        assert before.lag == 21  # Markers take offsets, too.
        answer = fetch(raw, 0, orders, records=records)
        for epoch in range(1, 30):
            got += contents(answer)
            acks = [(first, last, [ACCEPT]) for first, last, _ in lines(answer)]
            answer = fetch(raw, epoch, orders, *acks, records=records)
        [after] = described_offsets(raw, ("orders", [0])).topics[0].partitions

    assert sorted(value or b"" for value in got) == sorted(wanted)
    assert (after.start_offset, after.lag) == (21, 0)


def test_by_default_only_committed_messages_are_delivered(kafka: Server) -> None:
    orders = made(kafka)
    with Raw(kafka) as raw:
        assert described(raw)[LEVEL] == ("read_committed", 5)
        beat(raw, 0, "orders")
        producer = begun(kafka, b"committed")
        assert lines(fetch(raw, 0, orders)) == []
        raw.send(fetching(1, orders, wait_ms=10 * WAIT_MS), 1)
        commit(producer)
        assert contents(raw.hear(share.ShareFetchResponse)) == [b"committed"]

        producer.begin_transaction()
        write(producer, b"aborted")
        abort(producer)
        assert lines(fetch(raw, 2, orders)) == []


def test_a_group_that_changes_to_uncommitted_gets_what_is_open_at_once(kafka: Server) -> None:
    orders = made(kafka)
    producer = begun(kafka, b"open")
    with Raw(kafka) as raw, Raw(kafka) as admin:
        beat(raw, 0, "orders")
        assert lines(fetch(raw, 0, orders)) == []
        raw.send(fetching(1, orders, wait_ms=10 * WAIT_MS), 1)

        read(admin, "read_uncommitted")

        assert contents(raw.hear(share.ShareFetchResponse)) == [b"open"]
    abort(producer)


@pytest.mark.parametrize(("end", "wanted"), [(commit, [(1, 1, 2)]), (abort, [])])
def test_a_group_that_changes_to_committed_waits_for_the_end_of_what_it_gave_back(
    kafka: Server, end: End, wanted: list[tuple[int, int, int]]
) -> None:
    orders = made(kafka)
    publish(kafka, [b"plain"])
    producer = begun(kafka, b"open")
    with Raw(kafka) as raw, Raw(kafka) as admin:
        read(admin, "read_uncommitted")
        beat(raw, 0, "orders")
        assert contents(fetch(raw, 0, orders)) == [b"plain", b"open"]

        read(admin, "read_committed")

        assert lines(fetch(raw, 1, orders, (0, 1, [RELEASE]))) == [(0, 0, 2)]
        assert lines(fetch(raw, 2, orders, (0, 0, [ACCEPT]))) == []
        end(producer)
        assert lines(fetch(raw, 3, orders, wait_ms=3000)) == wanted


def test_the_level_is_there_after_a_restart_and_for_topics_that_are_new_to_the_group(tmp_path: Path) -> None:
    for kafka in serving(str(tmp_path)):
        made(kafka)
        with Raw(kafka) as raw:
            read(raw, "read_uncommitted")
        kafka.run(kafka.broker.create_topic("returns", partitions=1))

    def topic_id(topic: str) -> bytes:
        return kafka.call(kafka.broker.operations.layout, topic).id

    for kafka in serving(str(tmp_path)):
        orders, returns = topic_id("orders"), topic_id("returns")
        producer = begun(kafka, b"open")
        with Raw(kafka) as raw:
            assert described(raw)[LEVEL] == ("read_uncommitted", 8)
            beat(raw, 0, "orders", "returns")
            write(producer, b"returned", topic="returns")
            assert contents(fetch(raw, 0, orders)) == [b"open"]
            assert contents(fetch(raw, 1, returns)) == [b"returned"]
        abort(producer)
