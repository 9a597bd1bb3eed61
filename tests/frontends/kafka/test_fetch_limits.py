"""How much one Fetch brings: ``max_bytes`` at most, but always something (KIP-74)."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.frontends.kafka.clients import producer, reader, receive
from tests.frontends.kafka.conftest import PARTITIONS, Server
from tests.frontends.kafka.raw import Raw

from penstock.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.wire.records import read_header


def fill(kafka: Server, sizes: dict[int, list[int]], topic: str = "orders") -> None:
    """Write messages of these sizes to each partition, each in a batch of its own."""
    kafka.run(kafka.broker.create_topic(topic, partitions=PARTITIONS))
    for number, messages in sizes.items():
        for size in messages:
            kafka.run(kafka.broker.publish(topic, b"x" * size, partition=number))


def fetched(
    kafka: Server, places: dict[int, int], max_bytes: int, partition_bytes: int, topic: str = "orders"
) -> dict[int, bytes]:
    """What one request brings, by partition."""
    partitions = [
        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=partition_bytes)
        for number, offset in places.items()
    ]
    request = FetchRequest(
        min_bytes=1, max_bytes=max_bytes, topics=[FetchTopic(topic=topic, partitions=partitions)]
    )
    with Raw(kafka) as raw:
        [answer] = raw.ask(request, FetchResponse, 12).responses
    return {each.partition_index: bytes(each.records or b"") for each in answer.partitions}


def test_the_answer_is_not_larger_than_asked_for(kafka: Server) -> None:
    fill(kafka, {0: [900], 1: [900], 2: [50], 3: [900]})

    got = fetched(kafka, dict.fromkeys(range(4), 0), max_bytes=1200, partition_bytes=10_000)

    assert [number for number, records in got.items() if records] == [0, 2]
    assert sum(map(len, got.values())) <= 1200


def test_a_partition_has_a_limit_of_its_own_except_for_the_first_batch(kafka: Server) -> None:
    fill(kafka, {1: [900], 2: [900], 3: [50, 50, 50]})

    got = fetched(kafka, dict.fromkeys(range(4), 0), max_bytes=100_000, partition_bytes=300)

    assert len(got[1]) > 900  # Else nobody could ever read it.
    assert (got[0], got[2]) == (b"", b"")
    assert 100 < len(got[3]) <= 300


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.lists(st.integers(1, 3000), max_size=4), min_size=PARTITIONS, max_size=PARTITIONS),
    max_bytes=st.integers(0, 5000),
    partition_bytes=st.integers(0, 5000),
    number=st.integers(0, 2**62),
)
def test_any_reader_gets_everything_and_never_too_much(
    kafka: Server, sizes: list[list[int]], max_bytes: int, partition_bytes: int, number: int
) -> None:
    topic = f"t{number}"
    if topic in kafka.run(kafka.broker.topics()):
        return
    fill(kafka, dict(enumerate(sizes)), topic)
    places = dict.fromkeys(range(PARTITIONS), 0)

    for _ in range(sum(map(len, sizes))):
        got = fetched(kafka, places, max_bytes, partition_bytes, topic)
        first = True
        for each, records in got.items():
            at = 0
            while at < len(records):
                header = read_header(records, at)
                assert first or len(records) <= partition_bytes
                places[each] = header.next_offset
                at += header.size
            first = first and not records
        total = sum(map(len, got.values()))
        biggest = max(map(len, got.values()))
        assert total <= max_bytes or total == biggest  # Nothing is beside one that is too large.
        places = dict(
            sorted(places.items(), key=lambda place: (got[place[0]] != b"", place))
        )  # As clients do.

    assert sorted(places.items()) == [(each, len(messages)) for each, messages in enumerate(sizes)]


def test_a_client_that_takes_no_more_than_it_asked_for_is_not_stuck(kafka: Server) -> None:
    made = producer(kafka, {"message.max.bytes": 2_000_000})
    for number in range(6):
        made.produce("orders", bytes(900 * 1024), partition=number % 3)
        assert made.flush(20) == 0

    limits = {"fetch.max.bytes": 1_000_000, "receive.message.max.bytes": 1_000_512}
    consumer = reader(kafka, settings=limits)
    assert len(receive(consumer, 6)) == 6
    consumer.close()
