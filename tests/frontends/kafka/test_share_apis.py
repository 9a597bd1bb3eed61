"""Share groups request by request: members, sessions, what is acquired, and what is said of it."""

from typing import Any, Final

import pytest
from tests.frontends.kafka.clients import producer, publish
from tests.frontends.kafka.conftest import PARTITIONS, Server, serving
from tests.frontends.kafka.raw import Raw

from penstock.groups.configs import GroupConfig
from penstock.model.access import Grant
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages import sasl
from penstock.wire.kafka.messages.groups import group_admin, share
from penstock.wire.kafka.messages.parts import TopicIdPartitions
from penstock.wire.records import decode_batch

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
WAIT_MS: Final = 20_000
PASSWORD: Final = "correct horse"
Ack = tuple[int, int, list[int]]  # The first offset, the last one, and what is said of them.


@pytest.fixture
def orders(kafka: Server) -> bytes:
    """A topic of one partition, with the group billing from its beginning; its id."""
    return made(kafka)


def made(kafka: Server, topic: str = "orders", partitions: int = 1, **options: Any) -> bytes:
    kafka.run(kafka.broker.create_topic(topic, partitions=partitions))
    kafka.run(kafka.broker.create_group(topic, "billing", kind="queue", start="earliest", **options))
    return kafka.call(kafka.broker.operations.layout, topic).id


def group(kafka: Server, topic: str = "orders") -> Any:
    return kafka.run(kafka.broker.describe_group(topic, "billing"))


def beat(raw: Raw, epoch: int, *topics: str, member: str = "m") -> share.ShareGroupHeartbeatResponse:
    asked = share.ShareGroupHeartbeatRequest(
        group_id="billing",
        member_id=member,
        member_epoch=epoch,
        subscribed_topic_names=list(topics) or None,
    )
    return raw.ask(asked, share.ShareGroupHeartbeatResponse, 1)


def fetching(
    epoch: int,
    topic_id: bytes,
    *acks: Ack,
    partitions: int = 1,
    records: int = 100,
    wait_ms: int = 0,
    **fields: Any,
) -> share.ShareFetchRequest:
    batches = [
        share.AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=types)
        for a, b, types in acks
    ]
    parts = [share.ShareFetchPartition(partition_index=number) for number in range(partitions)]
    parts[0].acknowledgement_batches = batches
    told = {"group_id": "billing", "member_id": "m", "max_bytes": 1_000_000, **fields}
    return share.ShareFetchRequest(
        share_session_epoch=epoch,
        max_wait_ms=wait_ms,
        max_records=records,
        topics=[share.ShareFetchTopic(topic_id=topic_id, partitions=parts)],
        **told,
    )


def fetch(raw: Raw, *args: Any, version: int = 1, **fields: Any) -> share.ShareFetchResponse:
    return raw.ask(fetching(*args, **fields), share.ShareFetchResponse, version)


def acknowledge(
    raw: Raw, epoch: int, topic_id: bytes, *acks: Ack, version: int = 1, renew: bool = False
) -> Any:
    batches = [
        share.AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=types)
        for a, b, types in acks
    ]
    part = share.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
    topics = [share.AcknowledgeTopic(topic_id=topic_id, partitions=[part])] if acks else []
    asked = share.ShareAcknowledgeRequest(
        group_id="billing", member_id="m", share_session_epoch=epoch, is_renew_ack=renew, topics=topics
    )
    return raw.ask(asked, share.ShareAcknowledgeResponse, version)


def lines(answer: share.ShareFetchResponse) -> list[tuple[int, int, int]]:
    """First and last offset, and how often it was delivered, of what was acquired on the first partition."""
    assert answer.error_code == Code.NONE
    return [
        (line.first_offset, line.last_offset, line.delivery_count)
        for topic in answer.responses
        for part in topic.partitions
        for line in part.acquired_records
    ]


def codes(answer: Any) -> tuple[int, int]:
    """What is wrong with the first partition, and with the answers for it."""
    part = answer.responses[0].partitions[0]
    return part.error_code, getattr(part, "acknowledge_error_code", part.error_code)


def publish_some(kafka: Server, count: int, topic: str = "orders") -> None:
    publish(kafka, [b"%d" % number for number in range(count)], topic)


# Members.


def test_a_member_joins_stays_and_leaves(kafka: Server, orders: bytes) -> None:
    with Raw(kafka) as raw:
        joined = beat(raw, 0, "orders")
        stays = beat(raw, 1)
        left = beat(raw, -1)
        gone = beat(raw, 1)

    assert (joined.error_code, joined.member_epoch, joined.heartbeat_interval_ms) == (0, 1, 2000)
    assert joined.assignment is not None
    [topic] = joined.assignment.topic_partitions
    assert (topic.topic_id, topic.partitions) == (orders, [0])
    assert (stays.error_code, stays.member_epoch, stays.assignment) == (0, 1, None)
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert gone.error_code == Code.UNKNOWN_MEMBER_ID


def test_topics_that_come_grow_and_go_are_a_new_assignment(kafka: Server, orders: bytes) -> None:
    def topics(answer: share.ShareGroupHeartbeatResponse) -> dict[bytes, int]:
        assert answer.assignment is not None
        return {it.topic_id: len(it.partitions) for it in answer.assignment.topic_partitions}

    with Raw(kafka) as raw:
        beat(raw, 0, "orders", "returns")
        returns = made(kafka, "returns", partitions=2)
        came = beat(raw, 1)
        heard_late = beat(raw, 1)
        kafka.run(kafka.broker.alter_topic("returns", partitions=3))
        grew = beat(raw, 2)
        kafka.run(kafka.broker.delete_topic("orders"))
        went = beat(raw, 3)

    assert (came.member_epoch, topics(came)) == (2, {orders: 1, returns: 2})
    assert (heard_late.member_epoch, topics(heard_late)) == (2, {orders: 1, returns: 2})
    assert (grew.member_epoch, topics(grew)) == (3, {orders: 1, returns: 3})
    assert (went.member_epoch, topics(went)) == (4, {returns: 3})


@pytest.mark.parametrize(
    ("epoch", "topics", "member", "code"),
    [
        (7, (), "m", Code.FENCED_MEMBER_EPOCH),
        (1, (), "other", Code.UNKNOWN_MEMBER_ID),
        (-1, (), "other", Code.UNKNOWN_MEMBER_ID),
        (-2, (), "m", Code.INVALID_REQUEST),
        (0, (), "other", Code.INVALID_REQUEST),
        (0, ("orders",), "", Code.INVALID_REQUEST),
    ],
)
def test_a_heartbeat_that_does_not_fit_is_refused(
    kafka: Server, orders: bytes, epoch: int, topics: tuple[str, ...], member: str, code: Code
) -> None:
    assert orders
    with Raw(kafka) as raw:
        beat(raw, 0, "orders")

        assert beat(raw, epoch, *topics, member=member).error_code == code


def test_a_silent_member_is_gone_and_what_it_had_is_for_others_as_the_next_attempt(
    kafka: Server, orders: bytes
) -> None:
    def set_session(session_ms: int | None) -> None:
        said = GroupConfig(share_session_ms=session_ms, share_heartbeat_ms=50)
        kafka.run(kafka.broker.run(kafka.broker.operations.alter_group_config("billing", said)))

    set_session(200)
    publish_some(kafka, 1)
    with Raw(kafka) as silent, Raw(kafka) as other:
        beat(silent, 0, "orders")
        assert lines(fetch(silent, 0, orders)) == [(0, 0, 1)]

        set_session(None)
        beat(other, 0, "orders", member="n")
        got = fetch(other, 0, orders, member_id="n", wait_ms=WAIT_MS)

        assert lines(got) == [(0, 0, 2)]
        assert beat(silent, 1).error_code == Code.UNKNOWN_MEMBER_ID


def test_operators_see_the_group_and_delete_it_when_nobody_is_in_it(kafka: Server, orders: bytes) -> None:
    def listed() -> list[tuple[str, str, str]]:
        asked = group_admin.ListGroupsRequest(types_filter=["share"])
        found = raw.ask(asked, group_admin.ListGroupsResponse, 5).groups
        return [(one.group_id, one.group_type, one.group_state) for one in found]

    def delete() -> int:
        asked = group_admin.DeleteGroupsRequest(groups_names=["billing"])
        return raw.ask(asked, group_admin.DeleteGroupsResponse, 2).results[0].error_code

    def describe() -> share.DescribedShareGroup:
        asked = share.ShareGroupDescribeRequest(group_ids=["billing"])
        return raw.ask(asked, share.ShareGroupDescribeResponse, 1).groups[0]

    with Raw(kafka) as raw:
        beat(raw, 0, "orders")
        busy, described, refused = listed(), describe(), delete()
        beat(raw, -1)
        idle, deleted = listed(), delete()

        assert (busy, idle) == ([("billing", "share", "Stable")], [("billing", "share", "Empty")])
        assert (refused, deleted) == (Code.NON_EMPTY_GROUP, Code.NONE)
        assert (described.group_state, described.group_epoch) == ("Stable", 1)
        [member] = described.members
        assert (member.member_id, member.client_id) == ("m", "raw")
        assert member.assignment.topic_partitions[0].topic_id == orders
        assert listed() == []
        assert describe().error_code == Code.GROUP_ID_NOT_FOUND


# Sessions.


def test_requests_of_a_session_come_in_their_order(kafka: Server, orders: bytes) -> None:
    with Raw(kafka) as raw, Raw(kafka) as elsewhere:
        beat(raw, 0, "orders")
        assert fetch(raw, 1, orders).error_code == Code.SHARE_SESSION_NOT_FOUND
        assert fetch(raw, 0, orders).error_code == Code.NONE
        assert fetch(raw, 1, orders).error_code == Code.NONE
        assert fetch(raw, 1, orders).error_code == Code.INVALID_SHARE_SESSION_EPOCH
        assert acknowledge(raw, 0, orders).error_code == Code.INVALID_SHARE_SESSION_EPOCH
        assert acknowledge(raw, 3, orders).error_code == Code.INVALID_SHARE_SESSION_EPOCH
        assert acknowledge(raw, 2, orders).error_code == Code.NONE
        assert fetch(elsewhere, 3, orders).error_code == Code.SHARE_SESSION_NOT_FOUND
        assert acknowledge(raw, -1, orders).error_code == Code.NONE
        assert acknowledge(raw, -1, orders).error_code == Code.SHARE_SESSION_NOT_FOUND


def test_answers_in_the_first_request_of_a_session_make_no_sense(kafka: Server, orders: bytes) -> None:
    with Raw(kafka) as raw:
        assert fetch(raw, 0, orders, (0, 0, [ACCEPT])).error_code == Code.INVALID_REQUEST


def test_a_session_remembers_its_partitions_until_they_are_forgotten(kafka: Server) -> None:
    orders = made(kafka, partitions=PARTITIONS)
    with Raw(kafka) as raw:
        beat(raw, 0, "orders")
        fetch(raw, 0, orders, partitions=PARTITIONS)
        publish_some(kafka, 20)
        forgotten = TopicIdPartitions(topic_id=orders, partitions=list(range(1, PARTITIONS)))
        asked = share.ShareFetchRequest(
            group_id="billing",
            member_id="m",
            share_session_epoch=1,
            max_records=100,
            forgotten_topics_data=[forgotten],
        )
        got = raw.ask(asked, share.ShareFetchResponse, 1)

    [topic] = got.responses
    assert [part.partition_index for part in topic.partitions] == [0]


@pytest.mark.parametrize("how", ["close", "fetch", "cut", "open"])
def test_what_a_session_had_when_it_ends_is_for_others_and_the_attempt_counts_if_it_was_cut(
    kafka: Server, orders: bytes, how: str
) -> None:
    publish_some(kafka, 3)
    with Raw(kafka) as first, Raw(kafka) as other:
        beat(other, 0, "orders", member="n")
        beat(first, 0, "orders")
        assert lines(fetch(first, 0, orders)) == [(0, 2, 1)]
        assert lines(fetch(other, 0, orders, member_id="n")) == []
        if how == "close":
            acknowledge(first, -1, orders, (0, 0, [ACCEPT]))
        elif how == "fetch":
            assert lines(fetch(first, -1, orders, (0, 0, [ACCEPT]))) == []
        elif how == "open":
            acknowledge(first, 1, orders, (0, 0, [ACCEPT]))
            fetch(first, 0, orders, records=0)
        else:
            acknowledge(first, 1, orders, (0, 0, [ACCEPT]))
            first.__exit__(None, None, None)

        got = fetch(other, 1, orders, member_id="n", wait_ms=WAIT_MS)

    assert lines(got) == [(1, 2, 2 if how == "cut" else 1)]


# Fetching.


def test_a_fetch_that_waits_is_answered_when_something_comes(kafka: Server) -> None:
    orders, returns = made(kafka), made(kafka, "returns")
    with Raw(kafka) as raw:
        beat(raw, 0, "orders", "returns")
        asked = fetching(0, orders, wait_ms=WAIT_MS)
        asked.topics.append(
            share.ShareFetchTopic(topic_id=returns, partitions=[share.ShareFetchPartition(partition_index=0)])
        )
        raw.send(asked, 1)
        publish_some(kafka, 1, "returns")
        got = raw.hear(share.ShareFetchResponse)

    assert lines(got) == [(0, 0, 1)]
    assert got.responses[0].topic_id == returns
    assert got.acquisition_lock_timeout_ms == 30_000


def test_a_request_behind_a_fetch_that_waits_does_not_wait(kafka: Server, orders: bytes) -> None:
    with Raw(kafka) as raw:
        beat(raw, 0, "orders")
        raw.send(fetching(0, orders, wait_ms=10 * WAIT_MS), 1)
        raw.send(fetching(1, orders), 1)
        assert lines(raw.hear(share.ShareFetchResponse)) == []
        assert lines(raw.hear(share.ShareFetchResponse)) == []


def test_a_fetch_takes_no_more_records_or_bytes_than_it_asks_for(kafka: Server, orders: bytes) -> None:
    publish(kafka, [b"x" * 1000] * 100)
    with Raw(kafka) as raw:
        beat(raw, 0, "orders")
        few = lines(fetch(raw, 0, orders, records=10))
        small = lines(fetch(raw, 1, orders, max_bytes=5000))

    assert few == [(0, 9, 1)]
    assert small == [(10, 13, 1)]


@pytest.mark.parametrize(("max_bytes", "count"), [(1, 1), (10, 1), (1500, 1), (2500, 2), (1_000_000, 3)])
def test_bytes_are_counted_exactly_and_one_record_comes_in_any_case(
    kafka: Server, orders: bytes, max_bytes: int, count: int
) -> None:
    for _ in range(3):  # Each in a batch of its own.
        publish(kafka, [b"x" * 1000])
    with Raw(kafka) as raw:
        beat(raw, 0, "orders")
        got = fetch(raw, 0, orders, max_bytes=max_bytes, wait_ms=WAIT_MS)
        rest = fetch(raw, 1, orders)
        assert group(kafka).in_flight == 3

    assert lines(got) == [(0, count - 1, 1)]
    size = len(got.responses[0].partitions[0].records or b"")
    assert size <= max_bytes or count == 1
    again = [offset for first, last, attempt in lines(rest) for offset in range(first, last + attempt)]
    assert again == list(range(count, 3))  # At once, and as if it had not been taken.


def test_a_fetch_of_no_bytes_brings_no_records(kafka: Server, orders: bytes) -> None:
    publish(kafka, [b"a"])
    with Raw(kafka) as raw:
        beat(raw, 0, "orders")
        got = fetch(raw, 0, orders, max_bytes=0, wait_ms=WAIT_MS)
        rest = fetch(raw, 1, orders)

    assert lines(got) == []
    assert lines(rest) == [(0, 0, 1)]


def test_what_does_not_fit_beside_another_topic_comes_with_the_next_fetch(
    kafka: Server, orders: bytes
) -> None:
    returns = made(kafka, "returns")
    publish(kafka, [b"x" * 1000], "orders")
    publish(kafka, [b"y" * 1000], "returns")
    with Raw(kafka) as raw:
        beat(raw, 0, "orders", "returns")
        got = []
        for epoch in range(2):
            asked = fetching(epoch, orders, max_bytes=1500)
            asked.topics.append(
                share.ShareFetchTopic(
                    topic_id=returns, partitions=[share.ShareFetchPartition(partition_index=0)]
                )
            )
            got.append(raw.ask(asked, share.ShareFetchResponse, 1))

    assert [lines(each) for each in got] == [[(0, 0, 1)], [(0, 0, 1)]]
    taken = {
        topic.topic_id for each in got for topic in each.responses if topic.partitions[0].acquired_records
    }
    assert taken == {orders, returns}


def test_the_records_of_several_leases_are_in_order_and_there_once(kafka: Server, orders: bytes) -> None:
    settings = {"compression.type": "zstd", "linger.ms": 100}
    publish(kafka, [b"%d" % number for number in range(100)], settings=settings)
    with Raw(kafka) as raw:
        beat(raw, 0, "orders")
        fetch(raw, 0, orders, records=30)
        acknowledge(raw, 1, orders, (5, 9, [RELEASE]), (15, 19, [RELEASE]))
        got = fetch(raw, 2, orders)

    assert lines(got) == [(5, 9, 2), (15, 19, 2), (30, 99, 1)]
    data, offsets, at = bytes(got.responses[0].partitions[0].records or b""), [], 0
    while at < len(data):
        offsets += [record.offset for record in decode_batch(data, at)]
        at += 12 + int.from_bytes(data[at + 8 : at + 12])
    assert offsets == sorted(set(offsets))
    assert set(offsets) >= {*range(5, 10), *range(15, 20), *range(30, 100)}


def test_a_topic_that_is_deleted_is_an_error_of_its_partitions(kafka: Server, orders: bytes) -> None:
    publish_some(kafka, 1)
    with Raw(kafka) as raw:
        beat(raw, 0, "orders")
        fetch(raw, 0, orders)
        raw.send(fetching(1, orders, wait_ms=WAIT_MS), 1)
        kafka.run(kafka.broker.delete_topic("orders"))
        waited = raw.hear(share.ShareFetchResponse)
        again = fetch(raw, 2, orders, wait_ms=WAIT_MS)
        answered = acknowledge(raw, 3, orders, (0, 0, [ACCEPT]))

    assert codes(waited)[0] == codes(again)[0] == codes(answered)[0] == Code.UNKNOWN_TOPIC_ID


def test_a_partition_that_is_not_there_is_an_error_of_its_own(kafka: Server, orders: bytes) -> None:
    publish_some(kafka, 1)
    with Raw(kafka) as raw:
        beat(raw, 0, "orders")
        got = fetch(raw, 0, orders, partitions=2)

    found = {part.partition_index: part.error_code for part in got.responses[0].partitions}
    assert found == {0: Code.NONE, 1: Code.UNKNOWN_TOPIC_OR_PARTITION}


def test_what_comes_for_a_fetch_whose_connection_is_lost_is_for_others(kafka: Server, orders: bytes) -> None:
    with Raw(kafka) as lost, Raw(kafka) as other:
        beat(other, 0, "orders", member="n")
        fetch(other, 0, orders, member_id="n")
        beat(lost, 0, "orders")
        lost.send(fetching(0, orders, wait_ms=WAIT_MS), 1)
        lost.__exit__(None, None, None)
        publish_some(kafka, 1)
        got = fetch(other, 1, orders, member_id="n", wait_ms=WAIT_MS)

    assert lines(got) == [(0, 0, 1)]


def test_what_a_transaction_has_aborted_is_not_acquired(kafka: Server, orders: bytes) -> None:
    made = producer(kafka, {"transactional.id": "t"})
    made.init_transactions()
    for value, ends in ((b"yes", made.commit_transaction), (b"no", made.abort_transaction)):
        made.begin_transaction()
        made.produce("orders", value)
        made.flush()
        ends()
    publish_some(kafka, 1)
    with Raw(kafka) as raw:
        beat(raw, 0, "orders")
        got = fetch(raw, 0, orders)
        offsets = [(first, last) for first, last, _ in lines(got)]
        answer = acknowledge(raw, 1, orders, *((first, last, [ACCEPT]) for first, last in offsets))

    assert offsets == [(0, 0), (4, 4)]
    assert codes(answer)[0] == Code.NONE
    assert group(kafka).lag == 0


@pytest.mark.parametrize(
    ("limit", "where"), [("PARTITIONS_MAX", "groups.share_fetch"), ("TOPICS_MAX", "groups.share_groups")]
)
def test_a_session_and_a_member_have_their_limits(
    kafka: Server, orders: bytes, monkeypatch: pytest.MonkeyPatch, limit: str, where: str
) -> None:
    monkeypatch.setattr(f"penstock.frontends.kafka.{where}.{limit}", 1)
    with Raw(kafka) as raw:
        if limit == "TOPICS_MAX":
            assert beat(raw, 0, "orders", "returns").error_code == Code.INVALID_REQUEST
        else:
            assert fetch(raw, 0, orders, partitions=2).error_code == Code.INVALID_REQUEST
            assert fetch(raw, 1, orders).error_code == Code.SHARE_SESSION_NOT_FOUND


# Answers.


def test_each_offset_has_its_own_answer(kafka: Server, orders: bytes) -> None:
    publish_some(kafka, 5)
    with Raw(kafka) as raw:
        beat(raw, 0, "orders")
        fetch(raw, 0, orders)
        got = fetch(raw, 1, orders, (0, 4, [ACCEPT, RELEASE, REJECT, GAP, RELEASE]))

    assert lines(got) == [(1, 1, 2), (4, 4, 2)]
    assert codes(got) == (Code.NONE, Code.NONE)
    assert (group(kafka).acked, group(kafka).nacked) == (2, 2)
    assert len(kafka.run(kafka.broker.dead_letters("orders"))) == 1


@pytest.mark.parametrize(
    ("acks", "code"),
    [
        ([(0, 3, [ACCEPT])], Code.INVALID_RECORD_STATE),
        ([(7, 7, [ACCEPT])], Code.INVALID_RECORD_STATE),
        ([(0, 2**62, [ACCEPT])], Code.INVALID_RECORD_STATE),
        ([(0, 1, [ACCEPT]), (1, 2, [ACCEPT])], Code.INVALID_REQUEST),
        ([(2, 1, [ACCEPT])], Code.INVALID_REQUEST),
        ([(-1, 1, [ACCEPT])], Code.INVALID_REQUEST),
        ([(0, 2, [ACCEPT, ACCEPT])], Code.INVALID_REQUEST),
        ([(0, 0, [])], Code.INVALID_REQUEST),
        ([(0, 0, [RENEW])], Code.INVALID_REQUEST),
        ([(0, 0, [-1])], Code.INVALID_REQUEST),
    ],
)
def test_answers_that_do_not_fit_are_refused_all_together(
    kafka: Server, orders: bytes, acks: list[Ack], code: Code
) -> None:
    publish_some(kafka, 3)
    with Raw(kafka) as raw:
        beat(raw, 0, "orders")
        fetch(raw, 0, orders)

        assert codes(acknowledge(raw, 1, orders, *acks))[0] == code
        assert codes(fetch(raw, 2, orders, *acks)) == (Code.NONE, code)
        assert group(kafka).in_flight == 3


def test_nobody_answers_for_what_another_holds(kafka: Server, orders: bytes) -> None:
    publish_some(kafka, 2)
    with Raw(kafka) as raw, Raw(kafka) as other:
        beat(other, 0, "orders", member="n")
        fetch(other, 0, orders, member_id="n", records=1)
        beat(raw, 0, "orders")
        assert lines(fetch(raw, 0, orders)) == [(1, 1, 1)]

        assert codes(acknowledge(raw, 1, orders, (0, 0, [ACCEPT])))[0] == Code.INVALID_RECORD_STATE
        assert codes(acknowledge(raw, 2, orders, (1, 1, [ACCEPT])))[0] == Code.NONE


@pytest.mark.slow
def test_a_lease_that_is_over_cannot_be_answered_and_one_that_is_renewed_can(kafka: Server) -> None:
    orders = made(kafka, visibility_timeout="1s")
    publish_some(kafka, 2)
    with Raw(kafka) as raw, Raw(kafka) as other:
        beat(other, 0, "orders", member="n")
        beat(raw, 0, "orders")
        told = fetch(raw, 0, orders, records=1)
        assert (lines(told), told.acquisition_lock_timeout_ms) == ([(0, 0, 1)], 1000)
        fetch(raw, 1, orders, records=1)
        assert lines(fetch(other, 0, orders, member_id="n", wait_ms=500)) == []
        renewed = acknowledge(raw, 2, orders, (0, 0, [RENEW]), version=2, renew=True)
        assert codes(renewed)[0] == Code.NONE

        again = fetch(other, 1, orders, member_id="n", wait_ms=WAIT_MS)

        assert lines(again) == [(1, 1, 2)]
        assert codes(acknowledge(raw, 3, orders, (1, 1, [ACCEPT])))[0] == Code.INVALID_RECORD_STATE
        assert codes(acknowledge(raw, 4, orders, (0, 0, [ACCEPT])))[0] == Code.NONE


def test_a_group_that_delivers_at_most_once_needs_no_answers(kafka: Server) -> None:
    orders = made(kafka, delivery="at-most-once")
    publish_some(kafka, 2)
    with Raw(kafka) as raw:
        beat(raw, 0, "orders")
        got = fetch(raw, 0, orders)

        assert lines(got) == [(0, 1, 1)]
        assert codes(acknowledge(raw, 1, orders, (0, 1, [ACCEPT])))[0] == Code.NONE
    assert group(kafka).lag == 0


# Who may.


def logged_in(kafka: Server, user: str) -> Raw:
    raw = Raw(kafka)
    raw.ask(sasl.SaslHandshakeRequest(mechanism="PLAIN"), sasl.SaslHandshakeResponse, 1)
    told = sasl.SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{PASSWORD}".encode())
    assert raw.ask(told, sasl.SaslAuthenticateResponse, 2).error_code == Code.NONE
    return raw


def test_a_member_needs_the_right_to_its_group_and_topics_and_is_nobody_elses() -> None:
    grants = {
        "anna": Grant(role="consumer", topics=["orders"], groups=["billing"]),
        "bert": Grant(role="consumer", topics=["orders"], groups=["billing"]),
        "carl": Grant(role="consumer", topics=["orders"], groups=["other"]),
        "dora": Grant(role="consumer", topics=["returns"], groups=["billing"]),
    }
    for kafka in serving(authentication=True):
        orders = made(kafka)
        kafka.run(kafka.broker.publish("orders", b"x"))
        for user, grant in grants.items():
            kafka.run(kafka.broker.set_user(user, PASSWORD, [grant]))
        with (
            logged_in(kafka, "anna") as anna,
            logged_in(kafka, "bert") as bert,
            logged_in(kafka, "carl") as carl,
            logged_in(kafka, "dora") as dora,
        ):
            assert beat(anna, 0, "orders").error_code == Code.NONE
            assert lines(fetch(anna, 0, orders)) == [(0, 0, 1)]
            refused = Code.GROUP_AUTHORIZATION_FAILED
            assert beat(bert, 1).error_code == beat(bert, 0, "orders").error_code == refused
            assert fetch(bert, 0, orders).error_code == refused
            assert acknowledge(bert, 1, orders, (0, 0, [ACCEPT])).error_code == refused
            assert beat(carl, 0, "orders", member="n").error_code == refused
            assert fetch(carl, 0, orders, member_id="n").error_code == refused
            not_the_topic = Code.TOPIC_AUTHORIZATION_FAILED
            assert beat(dora, 0, "orders", member="d").error_code == not_the_topic
            assert codes(fetch(dora, 0, orders, member_id="d"))[0] == not_the_topic
            assert codes(acknowledge(anna, 1, orders, (0, 0, [ACCEPT])))[0] == Code.NONE
