"""Topics, groups, stored messages, dead letters, schedules, keys and users over gRPC."""

import grpc.aio
import pytest
from tests.frontends.grpc.place import Place, info_of, place, ranges

from penstock.grpc import penstock_pb2 as pb
from penstock.model.access import Grant
from penstock.model.ids import message_uuid

EMPTY = pb.Empty()


async def test_topics_are_created_described_changed_and_deleted(api: Place) -> None:
    settings = pb.TopicSettings(
        partitions=2, retention_ms=-1, ttl_ms=60_000, durability="memory", kafka_configs={"a": "b"}
    )

    await api.admin.CreateTopic(pb.TopicSettingsRequest(topic="events", settings=settings))
    made = await api.admin.DescribeTopic(pb.TopicRequest(topic="events"))
    change = pb.TopicSettings(ttl_ms=-1, partitions=3)
    await api.admin.AlterTopic(pb.TopicSettingsRequest(topic="events", settings=change))
    changed = await api.admin.DescribeTopic(pb.TopicRequest(topic="events"))
    before = (await api.admin.ListTopics(EMPTY)).topics
    await api.admin.DeleteTopic(pb.TopicRequest(topic="events"))

    assert (made.settings.partitions, made.settings.retention_ms, made.settings.ttl_ms) == (2, -1, 60_000)
    assert dict(made.settings.kafka_configs) == {"a": "b"}
    assert (changed.settings.ttl_ms, len(changed.partitions)) == (-1, 3)
    assert list(before) == ["events", "orders"]
    assert await api.broker.topics() == ["orders"]


async def test_groups_are_created_described_moved_and_deleted(api: Place) -> None:
    await api.publish(b"0", b"1", b"2")
    settings = pb.GroupSettings(start="1", visibility_timeout_ms=5000, backoff="fixed:1000,2000")
    group = {"topic": "orders", "group": "g"}

    await api.admin.CreateGroup(pb.GroupSettingsRequest(settings=settings, **group))
    made = await api.admin.DescribeGroup(pb.GroupRequest(**group))
    lags = []
    for to in ({"position": "earliest"}, {"offset": 2}, {"time_ms": 0}, {"position": "latest"}):
        await api.admin.Seek(pb.SeekRequest(**group, partition=0, **to))  # type: ignore[arg-type]
        lags.append((await api.admin.DescribeGroup(pb.GroupRequest(**group))).lag)
    await api.admin.DeleteGroup(pb.GroupRequest(**group))

    assert (made.kind, made.lag, made.verdict.word) == ("queue", 2, "no consumers")
    assert lags == [3, 1, 3, 0]
    assert (await api.broker.describe_topic("orders")).groups == []


async def test_a_seek_says_where_to(api: Place) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="give a position, an offset or a time"):
        await api.admin.Seek(pb.SeekRequest(topic="orders", group="g"))
    with pytest.raises(grpc.aio.AioRpcError, match="not a time in milliseconds"):
        await api.admin.Seek(pb.SeekRequest(topic="orders", group="g", time_ms=2**62))


async def test_a_reader_commits_its_offsets(api: Place) -> None:
    await api.publish(b"0", b"1")

    await api.admin.CommitOffsets(pb.CommitOffsetsRequest(topic="orders", group="reader", offsets={0: 1}))

    assert (await api.broker.describe_group("orders", "reader")).lag == 1


async def test_messages_are_read_without_being_consumed(api: Place) -> None:
    message = pb.Message(value=b"1", key=b"\xff", headers={"h": "v"}, priority="low")
    await api.publish(b"0")
    await api.publisher.Publish(pb.PublishRequest(topic="orders", message=message))

    read = await api.admin.Read(pb.ReadRequest(topic="orders", partition=0, offset=1))
    peeked = await api.admin.Peek(pb.PeekRequest(topic="orders", count=1))
    later = await api.admin.Read(pb.ReadRequest(topic="orders", from_time_ms=2**41))
    offsets = await api.admin.Offsets(pb.OffsetsRequest(topic="orders"))
    at_time = await api.admin.Offsets(pb.OffsetsRequest(topic="orders", time_ms=0))

    [found] = read.messages
    assert (found.topic, found.partition, found.offset) == ("orders", 0, 1)
    assert (found.key, found.value, dict(found.headers), found.priority) == (b"\xff", b"1", {"h": "v"}, "low")
    assert list(peeked.messages) == [found]
    assert list(later.messages) == []
    assert (dict(offsets.offsets), dict(at_time.offsets)) == ({0: 2}, {0: 0})


async def test_text_that_is_no_text_is_shown_in_ascii(api: Place) -> None:
    await api.broker.publish("orders", b"x", headers={"h": b"\xff"})

    [message] = (await api.admin.Read(pb.ReadRequest(topic="orders"))).messages

    assert dict(message.headers) == {"h": "\\xff"}


async def test_a_trace_tells_of_everything(api: Place) -> None:
    await api.publish(b"0")
    received = await api.poll()
    await api.consumer.Ack(
        pb.AckRequest(topic="orders", group="g", ack=pb.Settle(ranges=ranges(received.leases)))
    )

    trace = await api.admin.Trace(pb.TraceRequest(id="orders:0:0"))
    for other in ("orders-0@0", message_uuid("orders", 0, 0)):  # As Kafka's and KQueue's clients name it.
        assert await api.admin.Trace(pb.TraceRequest(id=other)) == trace
    states = await api.admin.DeliveryStates(
        pb.DeliveryStatesRequest(topic="orders", group="g", partition=0, start=0, end=1)
    )

    assert [event.event for event in trace.events][:3] == ["published", "delivered", "acked"]
    assert trace.text.startswith("orders:0:0")
    assert list(states.states) == [pb.DeliveryState(start=0, end=1, state="acked", attempts=1)]


async def test_dead_letters_are_listed_counted_and_redriven(api: Place) -> None:
    await api.publish(b"0")
    received = await api.poll()
    refused = pb.Refused(ranges=ranges(received.leases), reason="no good")
    await api.consumer.Reject(pb.RejectRequest(topic="orders", group="g", reject=refused))

    letters = await api.admin.ListDeadLetters(pb.DeadLettersRequest(topic="orders"))
    counted = await api.admin.ListDeadLetterErrors(pb.DeadLetterErrorsRequest())
    dry = await api.admin.Redrive(pb.RedriveRequest(topic="orders", dry_run=True))
    redriven = await api.admin.Redrive(pb.RedriveRequest(topic="orders", error="no such error"))
    done = await api.admin.Redrive(pb.RedriveRequest(topic="orders"))

    [letter] = letters.dead_letters
    assert (letter.source, letter.error, letter.message.value) == ("orders:0:0", "no good", b"0")
    assert [(error.topic, error.count, list(error.groups)) for error in counted.errors] == [
        ("orders", 1, ["g"])
    ]
    assert (dry.matched, dry.redriven, redriven.matched, done.redriven) == (1, 0, 0, 1)


async def test_schedules_are_added_listed_moved_and_cancelled(api: Place) -> None:
    message = pb.Message(value=b"x", key=b"k")
    later = pb.Message(value=b"y", deliver_at_ms=4_000_000_000_000)
    with pytest.raises(grpc.aio.AioRpcError):
        await api.publisher.Publish(pb.PublishRequest(topic="orders", message=later))  # After delay_max.

    schedule = await api.admin.Schedule(
        pb.ScheduleRequest(topic="orders", message=message, cron="0 8 * * 1", timezone="Europe/Berlin")
    )
    receipt = await api.publisher.Publish(
        pb.PublishRequest(topic="orders", message=pb.Message(value=b"y", delay_ms=60_000))
    )
    listed = await api.admin.ListScheduled(pb.ScheduledRequest(topic="orders"))
    moved = await api.admin.Reschedule(pb.RescheduleRequest(id=receipt.schedule_id, delay_ms=3_600_000))
    outcomes = [
        (await api.admin.CancelScheduled(pb.ScheduleId(id=identity))).outcome
        for identity in (schedule.id, receipt.schedule_id, "orders:0:s99")
    ]

    assert [(each.id, each.cron, each.value) for each in listed.messages] == [
        (schedule.id, "0 8 * * 1", b"x"),
        (receipt.schedule_id, "", b"y"),
    ]
    assert listed.count == 2
    assert moved.rescheduled
    assert outcomes == ["cancelled", "cancelled", "unknown"]


async def test_the_broker_at_a_glance_counts_this_connection(api: Place) -> None:
    api.broker.operations.server_counts.connections = lambda: api.listener.shared._connections.count
    await api.publish(b"x")

    stats = await api.admin.Stats(EMPTY)

    assert (stats.topics, stats.messages, stats.published, stats.connections) == (1, 1, 1, 1)


async def test_keys_and_users_are_managed_by_an_admin() -> None:
    async with place(authentication=True) as api:
        admin = await api.broker.create_key("admin", [Grant(role="admin")])
        metadata = (("authorization", f"Bearer {admin.key}"),)
        request = pb.CreateKeyRequest(
            name="app", grants=[pb.Grant(role="producer", topics=["orders"])], quota=pb.Quota(connections=1)
        )

        made = await api.admin.CreateKey(request, metadata=metadata)
        listed = await api.admin.ListKeys(EMPTY, metadata=metadata)
        await api.admin.RevokeKey(pb.KeyId(id=made.id), metadata=metadata)
        user = pb.SetUserRequest(name="anna", password="correct horse", grants=[pb.Grant(role="reader")])
        await api.admin.SetUser(user, metadata=metadata)
        users = await api.admin.ListUsers(EMPTY, metadata=metadata)
        await api.admin.DeleteUser(pb.UserName(name="anna"), metadata=metadata)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await api.admin.DeleteUser(pb.UserName(name="anna"), metadata=metadata)

        [key] = [key for key in listed.keys if key.name == "app"]
        assert (list(key.grants[0].topics), list(key.grants[0].groups)) == (["orders"], ["*"])
        assert (key.quota.connections, key.quota.HasField("bytes_per_second")) == (1, False)
        assert [user.name for user in users.users] == ["anna"]
        assert refused.value.code() == grpc.StatusCode.NOT_FOUND
        assert info_of(refused.value).reason == "IDENTITY_NOT_FOUND"
