"""How much one ShareFetch brings, whatever was published, released and asked for: never more than it may.

And how much all members of a group hold together.
"""

from random import Random
from time import sleep

import pytest
from tests.frontends.kafka.clients import publish
from tests.frontends.kafka.conftest import Server
from tests.frontends.kafka.raw import Raw
from tests.frontends.kafka.test_admin import alter, described
from tests.frontends.kafka.test_share_apis import (
    ACCEPT,
    REJECT,
    RELEASE,
    WAIT_MS,
    acknowledge,
    beat,
    fetch,
    fetching,
    made,
)

from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.groups import share
from penstock.wire.records import decode_batch

MESSAGES = 60
STEPS = 400
LOCKS = "share.partition.max.record.locks"
Place = tuple[int, int]  # Partition and offset.


def request(topic: bytes, epoch: int, random: Random, answers: dict[Place, int]) -> share.ShareFetchRequest:
    """A fetch with some limits, which also says what became of what came before."""
    parts = [share.ShareFetchPartition(partition_index=number) for number in range(2)]
    for (number, offset), kind in sorted(answers.items()):
        parts[number].acknowledgement_batches.append(
            share.AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[kind])
        )
    return share.ShareFetchRequest(
        group_id="billing",
        member_id="m",
        share_session_epoch=epoch,
        max_records=random.choice((1, 5, 20, 100)),
        max_bytes=random.choice((0, 50, 500, 1500, 4000, 20_000)),
        topics=[share.ShareFetchTopic(topic_id=topic, partitions=parts)],
    )


def taken(answer: share.ShareFetchResponse) -> tuple[list[Place], int]:
    """What was acquired, and the bytes of its records; each record is there, once."""
    places: list[Place] = []
    size = 0
    for part in (part for topic in answer.responses for part in topic.partitions):
        assert part.error_code == part.acknowledge_error_code == Code.NONE
        data, offsets, at = bytes(part.records or b""), [], 0
        while at < len(data):
            offsets += [record.offset for record in decode_batch(data, at)]
            at += 12 + int.from_bytes(data[at + 8 : at + 12])
        acquired = [
            offset
            for line in part.acquired_records
            for offset in range(line.first_offset, line.last_offset + 1)
        ]
        assert offsets == sorted(set(offsets))
        assert set(acquired) <= set(offsets)
        places += [(part.partition_index, offset) for offset in acquired]
        size += len(data)
    return places, size


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_fetch_brings_too_much_and_everything_arrives(kafka: Server, seed: int) -> None:
    random = Random(seed)
    topic = made(kafka, partitions=2, max_attempts=1000)
    for _ in range(3):
        sizes = random.choices((10, 100, 1000), k=MESSAGES // 3)
        settings = {
            "compression.type": random.choice(("none", "zstd")),
            "linger.ms": random.choice((0, 50)),
        }
        publish(kafka, [bytes(random.choices(b"ab", k=size)) for size in sizes], settings=settings)

    done: set[Place] = set()
    held: list[Place] = []
    with Raw(kafka) as raw:
        beat(raw, 0, "orders")
        for epoch in range(STEPS):
            answers = {place: random.choice((ACCEPT, ACCEPT, RELEASE)) for place in held}
            done |= {place for place, kind in answers.items() if kind == ACCEPT}
            asked = request(topic, epoch, random, answers)
            held, size = taken(raw.ask(asked, share.ShareFetchResponse, 1))
            assert not done.intersection(held)
            assert len(held) <= asked.max_records
            assert size <= asked.max_bytes or (asked.max_bytes and len(held) == 1)
            if len(done) == MESSAGES:
                break

    assert len(done) == MESSAGES


# Records in flight.


def acquired(answer: share.ShareFetchResponse) -> dict[int, int]:
    """How many records of each partition were acquired."""
    counts: dict[int, int] = {}
    for number, _ in taken(answer)[0]:
        counts[number] = counts.get(number, 0) + 1
    return counts


def until_somebody_waits(kafka: Server) -> None:
    topic = kafka.broker._core.state.topics["orders"]
    for _ in range(WAIT_MS // 10):
        if topic.waiters:
            return
        sleep(0.01)
    raise AssertionError("nobody waits")


def test_a_group_holds_as_many_records_of_each_partition_as_it_may(kafka: Server) -> None:
    topic = made(kafka, partitions=2)
    for number in range(2):
        for _ in range(150):
            kafka.run(kafka.broker.publish("orders", b"x", partition=number))
    with Raw(kafka) as raw, Raw(kafka) as other:
        assert described(raw)[LOCKS] == ("2000", 5)
        assert alter(raw, "billing", {LOCKS: "100"}) == 0
        beat(raw, 0, "orders")
        beat(other, 0, "orders", member="n")

        first = fetch(raw, 0, topic, partitions=2, records=130)
        rest = fetch(other, 0, topic, partitions=2, records=1000, member_id="n")
        counts = [acquired(first), acquired(rest)]
        assert {number: sum(each.get(number, 0) for each in counts) for number in range(2)} == {
            0: 100,
            1: 100,
        }
        assert acquired(fetch(other, 1, topic, partitions=2, records=1000, member_id="n")) == {}

        assert alter(raw, "billing", {LOCKS: None}) == 0
        assert acquired(fetch(other, 2, topic, partitions=2, records=1000, member_id="n")) == {0: 50, 1: 50}


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE, REJECT])
def test_a_member_that_waits_goes_on_when_another_answers(kafka: Server, kind: int) -> None:
    topic = made(kafka)
    publish(kafka, [b"x"] * 150)
    with Raw(kafka) as raw, Raw(kafka) as other:
        assert alter(raw, "billing", {LOCKS: "100"}) == 0
        beat(raw, 0, "orders")
        beat(other, 0, "orders", member="n")
        assert acquired(fetch(raw, 0, topic, records=1000)) == {0: 100}
        other.send(fetching(0, topic, records=1000, wait_ms=10 * WAIT_MS, member_id="n"), 1)
        until_somebody_waits(kafka)

        acknowledge(raw, 1, topic, (0, 29, [kind]))

        assert acquired(other.hear(share.ShareFetchResponse)) == {0: 30}


def test_the_limit_does_not_hold_for_consumers_of_penstock(kafka: Server) -> None:
    made(kafka)
    publish(kafka, [b"x"] * 150)
    with Raw(kafka) as raw:
        assert alter(raw, "billing", {LOCKS: "100"}) == 0

    async def received() -> int:
        async with await kafka.broker.consumer("orders", group="billing") as consumer:
            return len(await consumer.receive(1000))

    assert kafka.run(received()) == 150
