"""Consumer groups, with confluent-kafka (librdkafka): who reads what, and how far it has come."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from tests.frontends.kafka.clients import producer, publish, reader, receive, values
from tests.frontends.kafka.conftest import PARTITIONS, Server, serving
from tests.frontends.kafka.raw import Raw

from penstock.config.server import KafkaSettings
from penstock.groups.commits import Commit
from penstock.model.access import Grant
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.groups.membership import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from penstock.wire.kafka.messages.groups.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

WAIT_S = 20
REFUSED = (Code.GROUP_AUTHORIZATION_FAILED, Code.TOPIC_AUTHORIZATION_FAILED)


def member(kafka: Server, group: str = "billing", **settings: Any) -> Consumer:
    """A consumer of a group; settings have underscores for dots."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    if "group_protocol" not in settings:  # In the newer one, the broker says it.
        named["heartbeat.interval.ms"] = 200
    return Consumer(
        {
            "bootstrap.servers": kafka.address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **named,
        }
    )


def subscribed(kafka: Server, topic: str = "orders", group: str = "billing", **settings: Any) -> Consumer:
    """One that has subscribed."""
    consumer = member(kafka, group, **settings)
    consumer.subscribe([topic])
    return consumer


def places(kafka: Server, group: str = "billing", topic: str = "orders") -> dict[int, Commit]:
    """Where the group has come, as the broker knows it."""
    return kafka.run(kafka.broker.run(kafka.broker.operations.committed_offsets(topic, group)))


def test_a_group_goes_on_where_it_was(kafka: Server) -> None:
    contents = [b"%d" % number for number in range(100)]
    publish(kafka, contents[:50])
    first = subscribed(kafka)
    assert values(receive(first, 50)) == sorted(contents[:50])
    first.commit(asynchronous=False)
    first.close()
    publish(kafka, contents[50:])

    second = subscribed(kafka)
    assert values(receive(second, 50)) == sorted(contents[50:])
    second.close()


# Members that come and go.


class Worker:
    """A member in a thread: it reads, notes, commits what it gives up, and tells what it was given."""

    def __init__(self, kafka: Server, name: str, seen: "Seen", **settings: Any) -> None:
        self.name = name
        self.owned: set[int] = set()
        self.given: list[set[int]] = []
        self.taken: list[set[int]] = []
        self._seen = seen
        self._stop = threading.Event()
        self._cooperative = settings.get("partition_assignment_strategy") == "cooperative-sticky"
        self._consumer = member(kafka, client_id=name, **settings)
        self._consumer.subscribe(["orders"], on_assign=self._assign, on_revoke=self._revoke)
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.given.append({each.partition for each in partitions})
        self.owned |= self.given[-1]

    def _revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.taken.append({each.partition for each in partitions})
        self._commit(consumer)
        self.owned -= self.taken[-1]

    def _commit(self, consumer: Consumer) -> None:
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise

    def _work(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(100, timeout=0.05):
                assert message.error() is None, message.error()
                self._seen.note(self.name, message.partition() or 0, int(message.value() or b""))
        self._consumer.close()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)


class Seen:
    """What was read, in the order of each partition, and who read it."""

    def __init__(self) -> None:
        self.numbers: dict[int, list[int]] = defaultdict(list)
        self.readers: dict[int, list[str]] = defaultdict(list)
        self._changed = threading.Condition()

    def note(self, name: str, partition: int, number: int) -> None:
        with self._changed:
            self.numbers[partition].append(number)
            self.readers[partition].append(name)
            self._changed.notify_all()

    def count(self) -> int:
        return sum(map(len, self.numbers.values()))

    def until(self, what: Callable[[], bool]) -> None:
        """Wait for it, while something is read."""
        with self._changed:
            assert self._changed.wait_for(what, WAIT_S), f"{self.count()} messages in {WAIT_S} s"


class Stream:
    """A producer in a thread, which goes round the partitions with rising numbers until it is enough."""

    def __init__(self, kafka: Server, partitions: int, least: int) -> None:
        self.sent = 0
        self.enough = threading.Event()
        self._partitions = partitions
        self._least = least
        self._producer = producer(kafka, {"linger.ms": 5})
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        while self.sent < self._least or not self.enough.is_set():
            for partition in range(self._partitions):
                self._producer.produce("orders", b"%d" % (self.sent // self._partitions), partition=partition)
                self.sent += 1
            self._producer.poll(0.002)
        self._producer.flush(WAIT_S)

    def stop(self) -> int:
        """How many messages there are."""
        self.enough.set()
        self._thread.join(WAIT_S)
        return self.sent


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_three_members_come_and_go_and_nothing_is_lost_doubled_or_out_of_order(
    kafka: Server, strategy: str
) -> None:
    kafka.run(kafka.broker.create_topic("orders", partitions=12))
    seen, stream = Seen(), Stream(kafka, partitions=12, least=10_000)
    settings = {"partition_assignment_strategy": strategy}

    first = Worker(kafka, "first", seen, **settings)
    seen.until(lambda: len(first.owned) == 12)
    second = Worker(kafka, "second", seen, **settings)
    seen.until(lambda: len(first.owned) == len(second.owned) == 6)
    third = Worker(kafka, "third", seen, **settings)
    seen.until(lambda: len(first.owned) == len(second.owned) == len(third.owned) == 4)
    second.stop()
    seen.until(lambda: len(first.owned) == len(third.owned) == 6)
    count = stream.stop()
    seen.until(lambda: seen.count() >= count)
    first.stop()
    third.stop()

    assert count >= 10_000
    assert seen.numbers == {partition: list(range(count // 12)) for partition in range(12)}
    if strategy == "cooperative-sticky":
        never_moved = set(range(12)).difference(*(first.taken[:-1]))
        assert len(never_moved) >= 4
        for partition in never_moved:
            assert set(seen.readers[partition]) == {"first"}
            assert sum(partition in given for given in first.given) == 1


@pytest.mark.slow
def test_a_member_that_falls_silent_is_put_out(kafka: Server) -> None:
    publish(kafka, [b"1", b"2"])
    with Raw(kafka) as silent:
        asked = JoinGroupRequest(
            group_id="billing",
            session_timeout_ms=1500,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        assert silent.ask(asked, JoinGroupResponse, 3).error_code == Code.NONE

        consumer = subscribed(kafka)
        assert values(receive(consumer, 2)) == [b"1", b"2"]
        consumer.close()


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"group_protocol": "consumer"}])
def test_members_that_are_forgotten_as_by_a_restart_join_again_and_go_on(
    kafka: Server, settings: dict[str, str]
) -> None:
    publish(kafka, [b"%d" % number for number in range(20)])
    consumer = subscribed(kafka, **settings)
    receive(consumer, 20)
    consumer.commit(asynchronous=False)
    known = kafka.broker._core.state.kafka_groups
    kafka.loop.call_soon_threadsafe(known.clear)

    while consumer.poll(0.01) is None and known:
        pass
    while consumer.poll(0.01) is None and not known:
        pass
    publish(kafka, [b"more"])
    assert values(receive(consumer, 1)) == [b"more"]
    consumer.commit(asynchronous=False)
    consumer.close()


# Static members.


def test_a_static_member_that_comes_back_disturbs_nobody(kafka: Server) -> None:
    publish(kafka, [b"%d" % number for number in range(40)])
    seen = Seen()
    other = Worker(kafka, "other", seen, group_instance_id="host-1")
    seen.until(lambda: len(other.owned) == PARTITIONS)
    first = subscribed(kafka, group_instance_id="host-2")
    share = assigned(first)
    seen.until(lambda: len(other.owned) == PARTITIONS - len(share))
    rounds = len(other.given)
    first.close()

    again = subscribed(kafka, group_instance_id="host-2")
    assert assigned(again) == share
    again.close()
    assert len(other.given) == rounds
    other.stop()


def assigned(consumer: Consumer) -> set[int]:
    """What it is given, as soon as it is."""
    for _ in range(WAIT_S * 10):
        consumer.poll(0.1)
        if consumer.assignment():
            break
    return {each.partition for each in consumer.assignment()}


def test_of_two_processes_with_one_name_the_older_is_fenced(kafka: Server) -> None:
    publish(kafka, [b"x"])
    older = subscribed(kafka, group_instance_id="host-1")
    assigned(older)
    newer = subscribed(kafka, group_instance_id="host-1")
    assigned(newer)

    with pytest.raises(KafkaException) as raised:
        for _ in range(WAIT_S * 10):
            message = older.poll(0.1)
            if message is not None and message.error() is not None:
                raise KafkaException(message.error())

    assert raised.value.args[0].code() == KafkaError._FATAL
    newer.close()
    older.close()


# Places.


def test_a_commit_shows_in_the_description_of_the_group(kafka: Server) -> None:
    publish(kafka, [b"%d" % number for number in range(10)])
    consumer = subscribed(kafka, client_id="invoices")
    receive(consumer, 10)
    consumer.commit(asynchronous=False)

    info = kafka.run(kafka.broker.describe_group("orders", "billing"))

    assert (info.kind, info.lag, info.consumers) == ("stream", 0, ["invoices"])
    consumer.close()
    assert kafka.run(kafka.broker.describe_group("orders", "billing")).consumers == []


def test_places_with_notes_are_kept_over_a_restart(tmp_path: Path) -> None:
    for kafka in serving(str(tmp_path)):
        publish(kafka, [b"%d" % number for number in range(10)])
        consumer = member(kafka)
        consumer.commit(offsets=[TopicPartition("orders", 1, 1, "half")], asynchronous=False)
        consumer.close()

    for kafka in serving(str(tmp_path)):
        consumer = member(kafka)
        one, none = consumer.committed([TopicPartition("orders", 1), TopicPartition("orders", 2)])
        assert (one.offset, one.metadata) == (1, "half")
        assert none.offset < 0
        consumer.close()


def test_automatic_commits_are_those_of_what_was_read(kafka: Server) -> None:
    publish(kafka, [b"%d" % number for number in range(20)])
    consumer = subscribed(kafka, enable_auto_commit=True, auto_commit_interval_ms=100)
    receive(consumer, 20)
    consumer.close()

    assert sum(commit.offset for commit in places(kafka).values()) == 20


def test_a_group_that_is_moved_by_penstock_goes_on_from_there(kafka: Server) -> None:
    publish(kafka, [b"%d" % number for number in range(10)])
    first = subscribed(kafka)
    receive(first, 10)
    first.commit(asynchronous=False)
    first.close()

    kafka.run(kafka.broker.seek("orders", "billing", to="earliest"))

    second = subscribed(kafka)
    assert len(receive(second, 10)) == 10
    second.close()


def test_what_a_penstock_group_has_committed_a_kafka_group_finds(kafka: Server) -> None:
    publish(kafka, [b"%d" % number for number in range(10)])
    kafka.run(kafka.broker.commit_offsets("orders", "billing", {0: 1}))

    consumer = member(kafka)
    [found] = consumer.committed([TopicPartition("orders", 0)])
    consumer.close()

    assert found.offset == 1


def test_a_queue_group_of_that_name_takes_no_places(kafka: Server) -> None:
    publish(kafka, [b"x"])
    kafka.run(kafka.broker.create_group("orders", "billing"))
    consumer = member(kafka)

    with pytest.raises(KafkaException) as raised:
        consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)

    assert raised.value.args[0].code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL
    consumer.close()


# Who may.


def test_a_user_joins_and_commits_for_the_groups_that_are_granted() -> None:
    for kafka in serving(authentication=True):
        kafka.run(kafka.broker.create_topic("orders"))
        grant = Grant(role="consumer", topics=["orders"], groups=["billing*"])
        kafka.run(kafka.broker.set_user("anna", "correct horse", [grant]))
        login = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "anna",
            "sasl_password": "correct horse",
        }
        mine = subscribed(kafka, group="billing-eu", **login)
        assert len(assigned(mine)) == PARTITIONS
        place = TopicPartition("orders", 0, 0)
        mine.commit(offsets=[place], asynchronous=False)
        theirs = subscribed(kafka, group="shipping", **login)

        refused = next(found for _ in range(WAIT_S * 10) if (found := theirs.poll(0.1)) is not None)
        error = refused.error()
        assert error is not None
        assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        theirs.close()
        with Raw(kafka) as raw:  # librdkafka finds no coordinator for it, so it sends no commit.
            raw.login("anna", "correct horse")
            part = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
            topics = [OffsetCommitRequestTopic(name="orders", partitions=[part])]
            asked = OffsetCommitRequest(group_id="shipping", topics=topics)
            [answer] = raw.ask(asked, OffsetCommitResponse, 8).topics
            assert answer.partitions[0].error_code in REFUSED
        mine.close()
        assert list(kafka.broker._core.state.topics["orders"].groups) == ["billing-eu"]


# Operators.


def test_operators_list_describe_move_and_delete_groups(kafka: Server) -> None:
    publish(kafka, [b"%d" % number for number in range(10)])
    consumer = subscribed(kafka, client_id="invoices")
    receive(consumer, 10)
    consumer.commit(asynchronous=False)
    admin = AdminClient({"bootstrap.servers": kafka.address})

    listed = admin.list_consumer_groups().result(WAIT_S)
    assert [(one.group_id, one.state) for one in listed.valid] == [("billing", ConsumerGroupState.STABLE)]
    described = admin.describe_consumer_groups(["billing"])["billing"].result(WAIT_S)
    [one] = described.members
    assert (one.client_id, one.host, described.partition_assignor) == ("invoices", "/127.0.0.1", "range")
    assert len(one.assignment.topic_partitions) == PARTITIONS
    consumer.close()

    moved = ConsumerGroupTopicPartitions("billing", [TopicPartition("orders", 0, 1)])
    admin.alter_consumer_group_offsets([moved])["billing"].result(WAIT_S)
    asked = ConsumerGroupTopicPartitions("billing")
    found = admin.list_consumer_group_offsets([asked])["billing"].result(WAIT_S)
    assert {each.partition: each.offset for each in found.topic_partitions}[0] == 1

    admin.delete_consumer_groups(["billing"])["billing"].result(WAIT_S)
    assert admin.list_consumer_groups().result(WAIT_S).valid == []
    assert places(kafka) == {}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_whose_members_have_left_is_still_one_of_consumers(tmp_path: Path, protocol: str) -> None:
    settings = {"group_protocol": "consumer"} if protocol == "consumer" else {}
    for server in serving(str(tmp_path)):
        publish(server, [b"x"])
        consumer = member(server, **settings)
        consumer.subscribe(["orders"])
        receive(consumer, 1)
        consumer.commit(asynchronous=False)
        consumer.close()
        simple = reader(server, settings={"group.id": "simple"})
        simple.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        simple.close()
        assert simple_groups(server) == {"billing": False, "simple": True}
        server.run(server.broker.seek("orders", "billing", to="earliest"))
        assert simple_groups(server) == {"billing": False, "simple": True}

    for server in serving(str(tmp_path)):
        assert simple_groups(server) == {"billing": False, "simple": True}


def simple_groups(kafka: Server) -> dict[str, bool]:
    """All groups, and whether an admin client takes them for readers without a group protocol."""
    admin = AdminClient({"bootstrap.servers": kafka.address})
    listed = admin.list_consumer_groups().result(10)
    assert listed.errors == []
    return {each.group_id: each.is_simple_consumer_group for each in listed.valid}


@pytest.mark.slow
def test_consumers_that_start_together_are_assigned_once() -> None:
    for server in serving(settings=KafkaSettings(initial_rebalance_delay_ms=1500)):
        server.run(server.broker.create_topic("orders", partitions=PARTITIONS))
        told: list[tuple[str, int]] = []
        consumers = {name: member(server) for name in "ab"}
        for name, consumer in consumers.items():
            consumer.subscribe(["orders"], on_assign=partial(_note_assigned, told, name))
            consumer.poll(0.7)  # The second one starts a little later.
        deadline = time.monotonic() + WAIT_S
        while len(told) < 2 and time.monotonic() < deadline:
            for consumer in consumers.values():
                consumer.poll(0.05)
        for consumer in consumers.values():
            consumer.close()

    assert sorted(told) == [("a", PARTITIONS // 2), ("b", PARTITIONS // 2)]


def _note_assigned(told: list[tuple[str, int]], name: str, _: Consumer, places: list[TopicPartition]) -> None:
    told.append((name, len(places)))


def test_the_broker_tells_how_long_a_new_group_waits(kafka: Server) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.address})
    [future] = admin.describe_configs([ConfigResource(ResourceType.BROKER, "0")]).values()

    assert future.result(10)["group.initial.rebalance.delay.ms"].value == "0"
