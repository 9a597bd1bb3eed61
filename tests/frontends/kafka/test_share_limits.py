"""How much one ShareFetch brings, whatever was published, released and asked for: never more than it may."""

from random import Random

import pytest
from tests.frontends.kafka.clients import publish
from tests.frontends.kafka.conftest import Server
from tests.frontends.kafka.raw import Raw
from tests.frontends.kafka.test_share_apis import ACCEPT, RELEASE, beat, made

from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages import share
from penstock.wire.records import decode_batch

MESSAGES = 60
STEPS = 400
Place = tuple[int, int]  # Partition and offset.


def request(topic: bytes, epoch: int, random: Random, answers: dict[Place, int]) -> share.ShareFetchRequest:
    """A fetch with some limits, which also says what became of what came before."""
    parts = [share.FetchPartition(partition_index=number) for number in range(2)]
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
        topics=[share.FetchTopic(topic_id=topic, partitions=parts)],
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
            assert size <= asked.max_bytes or len(held) == 1
            if len(done) == MESSAGES:
                break

    assert len(done) == MESSAGES
