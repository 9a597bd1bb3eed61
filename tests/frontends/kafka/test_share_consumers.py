"""Share groups with confluent-kafka's ShareConsumer, alone and beside Penstock's own consumers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from confluent_kafka import AcknowledgeType, Consumer, KafkaException, Message, ShareConsumer
from tests.frontends.kafka.clients import publish, values
from tests.frontends.kafka.conftest import Server, serving

WAIT_S: Final = 20
POLLS_MAX: Final = 200


def described(kafka: Server, topic: str = "orders") -> Any:
    return kafka.run(kafka.broker.describe_group(topic, "billing"))


@contextmanager
def sharing(kafka: Server, *topics: str, mode: str = "explicit", **settings: Any) -> Iterator[ShareConsumer]:
    """A member of the group billing."""
    told = {name.replace("_", "."): value for name, value in settings.items()}
    consumer = ShareConsumer(
        {
            "bootstrap.servers": kafka.address,
            "group.id": "billing",
            "share.acknowledgement.mode": mode,
            "log_level": 2,
            **told,
        }
    )
    consumer.subscribe(list(topics) or ["orders"])
    try:
        yield consumer
    finally:
        consumer.close()


def from_the_beginning(kafka: Server, topic: str = "orders", **options: Any) -> None:
    if topic not in kafka.run(kafka.broker.topics()):
        kafka.run(kafka.broker.create_topic(topic))
    kafka.run(kafka.broker.create_group(topic, "billing", kind="queue", start="earliest", **options))


def take(
    consumer: ShareConsumer,
    count: int,
    answer: Callable[[Message], AcknowledgeType] = lambda _: AcknowledgeType.ACCEPT,
) -> list[Message]:
    """So many records, each answered."""
    got: list[Message] = []
    for _ in range(POLLS_MAX):
        for message in consumer.poll(1):
            assert message.error() is None
            consumer.acknowledge(message, answer(message))
            got.append(message)
        if len(got) >= count:
            consumer.commit_sync(WAIT_S)
            return got
    raise AssertionError(f"only {len(got)} of {count}")


def joined(kafka: Server, consumer: ShareConsumer, topic: str = "orders") -> None:
    """It is in the group, which begins at the end of the topic."""
    for _ in range(POLLS_MAX):
        consumer.poll(0.1)
        if "billing" in kafka.run(kafka.broker.describe_topic(topic)).groups:
            return
    raise AssertionError("it has not joined")


def test_what_is_accepted_is_done(kafka: Server) -> None:
    from_the_beginning(kafka)
    contents = [b"%d" % number for number in range(100)]
    publish(kafka, contents)

    with sharing(kafka) as consumer:
        got = take(consumer, 100)

    assert values(got) == sorted(contents)
    assert {message.delivery_count() for message in got} == {1}
    assert (described(kafka).lag, described(kafka).acked) == (0, 100)


def test_the_next_poll_accepts_what_the_last_one_brought(kafka: Server) -> None:
    from_the_beginning(kafka)
    publish(kafka, [b"%d" % number for number in range(50)])
    got: list[Message] = []

    with sharing(kafka, mode="implicit") as consumer:
        while len(got) < 50:
            got += consumer.poll(WAIT_S)
        consumer.commit_sync(WAIT_S)

    assert (described(kafka).lag, described(kafka).acked) == (0, 50)


def test_what_is_released_comes_again_and_the_attempt_counts(kafka: Server) -> None:
    from_the_beginning(kafka)
    publish(kafka, [b"x"])

    with sharing(kafka) as consumer:
        take(consumer, 1, lambda _: AcknowledgeType.RELEASE)
        [again] = take(consumer, 1)

    assert (again.value(), again.delivery_count()) == (b"x", 2)
    assert described(kafka).lag == 0


def test_what_is_released_too_often_is_a_dead_letter(kafka: Server) -> None:
    from_the_beginning(kafka, max_attempts=2)
    publish(kafka, [b"bad", b"good"])

    with sharing(kafka) as consumer:
        release = lambda message: (  # noqa: E731 - it is said once.
            AcknowledgeType.RELEASE if message.value() == b"bad" else AcknowledgeType.ACCEPT
        )
        take(consumer, 3, release)

    [letter] = kafka.run(kafka.broker.dead_letters("orders"))
    assert (letter.message.value, letter.attempts) == (b"bad", 2)
    assert described(kafka).lag == 0


def test_what_is_rejected_is_a_dead_letter_at_once(kafka: Server) -> None:
    from_the_beginning(kafka)
    publish(kafka, [b"bad"])

    with sharing(kafka) as consumer:
        take(consumer, 1, lambda _: AcknowledgeType.REJECT)

    [letter] = kafka.run(kafka.broker.dead_letters("orders"))
    assert letter.message.value == b"bad"


def test_a_new_group_begins_at_the_end(kafka: Server) -> None:
    publish(kafka, [b"old"])

    with sharing(kafka) as consumer:
        joined(kafka, consumer)
        publish(kafka, [b"new"])
        got = take(consumer, 1)

    assert values(got) == [b"new"]


def test_what_a_consumer_has_when_it_closes_is_for_others_and_the_attempt_does_not_count(
    kafka: Server,
) -> None:
    from_the_beginning(kafka)
    publish(kafka, [b"x"])

    with sharing(kafka) as first:
        assert len(first.poll(WAIT_S)) == 1
    with sharing(kafka) as second:
        [got] = take(second, 1)

    assert (got.value(), got.delivery_count()) == (b"x", 1)


def test_an_answer_that_is_only_given_to_the_consumer_counts_when_it_closes(kafka: Server) -> None:
    from_the_beginning(kafka)
    publish(kafka, [b"x"])

    with sharing(kafka) as consumer:
        [message] = consumer.poll(WAIT_S)
        consumer.acknowledge(message)

    assert described(kafka).lag == 0


def test_two_members_and_a_consumer_of_penstock_share_the_work(kafka: Server) -> None:
    from_the_beginning(kafka)
    contents = [b"%d" % number for number in range(300)]
    publish(kafka, contents)

    async def some() -> list[bytes]:
        async with await kafka.broker.consumer("orders", group="billing") as worker:
            messages = await worker.receive(100)
            await worker.ack(messages)
        return [message.value or b"" for message in messages]

    with sharing(kafka, max_poll_records=10) as first, sharing(kafka, max_poll_records=10) as second:
        shared = take(first, 10) + take(second, 10)
        own = kafka.run(some())
        shared += take(first, 300 - len(shared) - len(own))

    assert own
    assert sorted([*values(shared), *own]) == sorted(contents)
    assert described(kafka).lag == 0


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_large_batch_is_worked_on_in_parts_and_none_of_it_twice(kafka: Server, codec: str) -> None:
    from_the_beginning(kafka)
    contents = [b"%05d" % number * 20 for number in range(1000)]
    publish(kafka, contents, settings={"compression.type": codec, "linger.ms": 100})

    with sharing(kafka, max_poll_records=7) as consumer:
        released: set[tuple[int, int]] = set()

        def sometimes(message: Message) -> AcknowledgeType:
            place = message.partition() or 0, message.offset() or 0
            if place[1] % 5 or place in released:
                return AcknowledgeType.ACCEPT
            released.add(place)
            return AcknowledgeType.RELEASE

        got: list[Message] = []
        while len(got) < len(contents) + len(released):
            got += take(consumer, 1, sometimes)

    accepted = [message for message in got if (message.offset() or 0) % 5 or message.delivery_count() == 2]
    assert values(accepted) == sorted(contents)
    assert described(kafka).lag == 0


def test_messages_of_a_megabyte_go_out_a_few_at_a_time(kafka: Server) -> None:
    from_the_beginning(kafka)
    contents = [b"%d" % number * 1_000_000 for number in range(5)]
    publish(kafka, contents, settings={"message.max.bytes": 2_000_000})

    with sharing(kafka) as consumer:
        assert values(take(consumer, 5)) == contents


@pytest.mark.slow
def test_two_topics_of_which_one_comes_later(kafka: Server) -> None:
    from_the_beginning(kafka)

    with sharing(kafka, "orders", "returns") as consumer:
        publish(kafka, [b"order"])
        assert values(take(consumer, 1)) == [b"order"]
        from_the_beginning(kafka, "returns")
        publish(kafka, [b"return"], "returns")
        assert values(take(consumer, 1)) == [b"return"]


def test_a_topic_that_is_deleted_under_the_fetch_ends_nothing_else(kafka: Server) -> None:
    from_the_beginning(kafka)
    from_the_beginning(kafka, "returns")

    with sharing(kafka, "orders", "returns") as consumer:
        publish(kafka, [b"first"])
        take(consumer, 1)
        kafka.run(kafka.broker.delete_topic("returns"))
        publish(kafka, [b"second"])
        assert values(take(consumer, 1)) == [b"second"]


def test_a_stream_group_of_that_name_is_a_clear_error(kafka: Server) -> None:
    kafka.run(kafka.broker.create_topic("orders"))
    kafka.run(kafka.broker.create_group("orders", "billing", kind="stream"))

    with sharing(kafka) as consumer, pytest.raises(KafkaException, match="INCONSISTENT_GROUP_PROTOCOL"):
        for _ in range(POLLS_MAX):
            consumer.poll(1)


def test_what_was_said_is_known_after_a_restart(tmp_path: Path) -> None:
    contents = [b"%d" % number for number in range(10)]
    for kafka in serving(str(tmp_path)):
        kafka.run(kafka.broker.create_topic("orders", partitions=1))
        from_the_beginning(kafka)
        publish(kafka, contents)
        with sharing(kafka) as consumer:
            for message in consumer.poll(WAIT_S):
                is_even = (message.offset() or 0) % 2 == 0
                consumer.acknowledge(message, AcknowledgeType.RELEASE if is_even else AcknowledgeType.ACCEPT)
    for kafka in serving(str(tmp_path)):
        with sharing(kafka) as consumer:
            again = take(consumer, 5)

    assert values(again) == contents[::2]
    assert {message.delivery_count() for message in again} == {2}


@pytest.mark.slow
def test_members_come_and_go_and_everything_is_accepted_once(kafka: Server) -> None:
    from_the_beginning(kafka, max_attempts=100)
    contents = [b"%d" % number for number in range(3000)]
    accepted: list[bytes] = []
    all_done = threading.Event()

    def work(seed: int) -> None:
        random = Random(seed)
        while not all_done.is_set():
            with sharing(kafka, max_poll_records=20) as consumer:
                for _ in range(random.randrange(5, 20)):
                    accepted.extend(some(consumer, random))
                    if len(accepted) >= len(contents):
                        all_done.set()
                        return

    def some(consumer: ShareConsumer, random: Random) -> list[bytes]:
        """A poll, of which most is accepted, and the rest is released."""
        good: list[bytes] = []
        for message in consumer.poll(0.2):
            is_good = random.random() < 0.8
            consumer.acknowledge(message, AcknowledgeType.ACCEPT if is_good else AcknowledgeType.RELEASE)
            good += [message.value() or b""] * is_good
        told = consumer.commit_sync(WAIT_S)
        assert all(error is None for error in told.values())
        return good

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for worker in workers:
        worker.start()
    publish(kafka, contents)
    assert all_done.wait(30)
    for worker in workers:
        worker.join(WAIT_S)

    assert sorted(accepted) == sorted(contents)
    assert (described(kafka).lag, described(kafka).timed_out) == (0, 0)


@pytest.mark.parametrize("settings", [{}, {"group.protocol": "consumer"}], ids=["classic", "newer"])
def test_a_consumer_that_comes_under_that_name_is_refused_and_takes_nothing(
    kafka: Server, settings: dict[str, Any]
) -> None:
    from_the_beginning(kafka)
    publish(kafka, [b"first"])
    told = {"bootstrap.servers": kafka.address, "group.id": "billing", "log_level": 0}
    consumer = Consumer({**told, **settings})
    with sharing(kafka) as sharer:
        assert values(take(sharer, 1)) == [b"first"]
        consumer.subscribe(["orders"])
        heard = next(found for _ in range(POLLS_MAX) if (found := consumer.poll(0.1)) is not None)
        consumer.close()
        publish(kafka, [b"second"])
        assert values(take(sharer, 1)) == [b"second"]

    refusal = heard.error()
    assert refusal is not None
    assert "Inconsistent group protocol" in refusal.str()
    assert described(kafka).lag == 0


def test_a_group_that_is_deleted_under_its_members_begins_anew_at_the_end(kafka: Server) -> None:
    from_the_beginning(kafka)
    publish(kafka, [b"before"])
    with sharing(kafka) as consumer:
        assert values(take(consumer, 1)) == [b"before"]
        kafka.run(kafka.broker.delete_group("orders", "billing"))
        joined(kafka, consumer)
        publish(kafka, [b"after"])

        assert values(take(consumer, 1)) == [b"after"]
