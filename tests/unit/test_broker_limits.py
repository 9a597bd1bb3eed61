"""How many topics, partitions, groups and the like there may be, and that one more changes nothing."""

import pytest

from penstock.config.broker import BrokerConfig, TopicSettings
from penstock.errors import LimitReached, TopicExists
from penstock.testing import TestBroker


def opened(**limits: int) -> TestBroker:
    return TestBroker.open(config=BrokerConfig(**limits))  # type: ignore[arg-type]


def test_topics_have_a_limit() -> None:
    with opened(topics_max=2) as broker:
        broker.create_topic("a")
        broker.create_topic("b")

        with pytest.raises(LimitReached, match=r"the limit is 2 topics; .* broker\.topics_max"):
            broker.create_topic("c")
        with pytest.raises(TopicExists):
            broker.create_topic("a")
        broker.delete_topic("a")
        broker.create_topic("c")

        assert broker.topics() == ["b", "c"]


def test_partitions_of_all_topics_have_a_limit_also_when_a_topic_grows() -> None:
    with opened(partitions_max=10) as broker:
        broker.create_topic("a", partitions=6)

        with pytest.raises(LimitReached, match=r"broker\.partitions_max"):
            broker.create_topic("b", partitions=5)
        broker.create_topic("b", partitions=4)
        with pytest.raises(LimitReached, match=r"broker\.partitions_max"):
            broker.alter_topic("a", partitions=7)

        assert [len(broker.describe_topic(name).partitions) for name in ("a", "b")] == [6, 4]
        broker.alter_topic("a", retention="1d")


def test_partitions_of_one_topic_have_a_limit() -> None:
    with opened(topic_partitions_max=3) as broker:
        with pytest.raises(LimitReached, match=r"the limit is 3 partitions of a topic"):
            broker.create_topic("a", partitions=4)
        broker.create_topic("a", partitions=3)
        with pytest.raises(LimitReached, match=r"broker\.topic_partitions_max"):
            broker.alter_topic("a", partitions=4)


def test_groups_have_a_limit_and_existing_ones_go_on() -> None:
    with opened(groups_max=2) as broker:
        broker.create_topic("a")
        broker.create_topic("b")
        broker.create_group("a", "one")
        broker.create_group("b", "one")

        with pytest.raises(LimitReached, match=r"broker\.groups_max"):
            broker.create_group("a", "two")
        with pytest.raises(LimitReached, match=r"broker\.groups_max"):
            broker.consumer("a", group="two")
        with pytest.raises(LimitReached, match=r"broker\.groups_max"):
            broker.commit_offsets("a", "two", {0: 0})
        broker.create_group("a", "one", max_attempts=7)
        broker.delete_group("b", "one")
        broker.create_group("a", "two")

        assert broker.groups("a") == ["one", "two"]


def test_consumers_of_a_group_have_a_limit() -> None:
    with opened(group_members_max=2) as broker:
        broker.create_topic("a")
        first = broker.consumer("a", group="one")
        broker.consumer("a", group="one")

        with pytest.raises(LimitReached, match=r"broker\.group_members_max"):
            broker.consumer("a", group="one")
        first.close()

        broker.consumer("a", group="one")


def test_transactional_ids_have_a_limit_and_known_ones_go_on() -> None:
    with opened(transactional_ids_max=2) as broker:
        transactions = broker._core.transactions
        for name in ("one", "two", "one"):
            broker._driver.run(transactions.init_producer(name, 60_000, -1, -1))

        with pytest.raises(LimitReached, match=r"broker\.transactional_ids_max"):
            broker._driver.run(transactions.init_producer("three", 60_000, -1, -1))


def test_dead_letters_find_their_topic_also_at_the_limit() -> None:
    with opened(topics_max=1, partitions_max=2) as broker:
        broker.create_topic("orders", partitions=2)
        broker.publish("orders", b"poison")
        broker.create_group("orders", "work", max_attempts=1)
        [message] = broker.consumer("orders", group="work").receive(1)
        message.reject("no good")

        assert [letter.message.value for letter in broker.dead_letters("orders")] == [b"poison"]


def test_every_limit_of_the_broker_has_a_default_that_its_own_defaults_keep() -> None:
    config = BrokerConfig()

    assert TopicSettings().partitions <= config.topic_partitions_max <= config.partitions_max
