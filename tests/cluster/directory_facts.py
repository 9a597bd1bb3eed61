"""A broker with a bit of everything, and all that can be seen of it: for tests of what must lose nothing."""

from typing import Any

import msgspec
from tests.staged import batch, stage

from penstock.api.broker import Broker
from penstock.model.access import Grant
from penstock.model.schemas import NewSchema
from penstock.wire.records import BatchBuilder, number_batch, seal_batch

ORDERS = "orders"
PARTITIONS = 3
PRODUCER = 7_000  # An id that a client says it has.
VOLATILE = (
    "lag_seconds", "drain_seconds", "oldest_unacked", "rates", "verdict", "delivered", "acked", "nacked",
    "timed_out", "dead_lettered", "expired", "consumers", "published", "duplicates", "bytes", "cut_bytes",
    "last_used_ms", "partitions",
)  # fmt: skip


def numbered(first: int, count: int = 3) -> bytes:
    """A batch of an idempotent producer."""
    builder = BatchBuilder()
    for at in range(first, first + count):
        builder.add(None, b"numbered %d" % at, [])
    made = builder.build(0, 0)
    number_batch(made, PRODUCER, first)
    seal_batch(made)
    return bytes(made)


def fill(broker: Broker) -> None:
    """Messages, groups in every state, dead letters, schedules, producers, staged publishes, keys."""
    broker.create_topic(ORDERS, partitions=PARTITIONS, segment_bytes=4096, retention=None)
    broker.create_topic("last", compact=True, retention=None)
    for at in range(120):
        broker.publish(ORDERS, b"%d " % at * 20, key=f"k{at % 9}", headers={"at": str(at)}, priority=at % 3)
        broker.publish("last", b"%d" % at, key=f"k{at % 5}")
    broker.publish(ORDERS, b"once", dedup_id="only-once")
    broker.publish(ORDERS, b"later", delay="1h")
    broker.schedule(ORDERS, b"each monday", cron="0 8 * * 1", timezone="Europe/Berlin")
    broker.append(ORDERS, 1, numbered(0))
    broker.create_group(ORDERS, "billing", max_attempts=2, backoff=["0s"])
    with broker.consumer(ORDERS, group="billing") as consumer:
        for message in consumer.receive(40):
            if message.offset % 4 == 0:
                message.nack(delay="1h", error="no stock")
            elif message.offset % 4 != 1:
                message.ack()
    with broker.consumer(ORDERS, group="shipping") as consumer:
        for message in consumer.receive(6):
            message.reject("no address")
    broker.create_group(ORDERS, "audit", kind="stream")
    broker.commit_offsets(ORDERS, "audit", {0: 5, 1: 7})
    broker.publish_staged(ORDERS, "job", 4, stage(broker, "a", (0, batch([b"s1"])), (2, batch([b"s2"]))))
    broker.create_key("reader", [Grant(role="consumer", topics=[ORDERS])])
    broker.register_schema(f"{ORDERS}-value", NewSchema(schema='{"type": "long"}'))
    broker.set_user("anna", "a long secret of anna", [Grant(role="admin")])


def facts(broker: Broker) -> dict[Any, Any]:
    """All of it that is the same on one server and in a cluster, before a restart and after it."""
    found: dict[Any, Any] = {
        "keys": _plain(broker.keys()),
        "users": _plain(broker.users()),
        "schemas": _plain(broker.schemas()),
        "version": broker.published_version(ORDERS, "job"),
    }
    for topic in sorted(broker.topics()):
        info = broker.describe_topic(topic)
        found[topic] = _plain(info)
        found[topic, "partitions"] = [(each.start, each.end, each.scheduled) for each in info.partitions]
        found[topic, "scheduled"] = sorted(map(str, _plain(broker.scheduled(topic))))
        for partition in range(info.settings.partitions):
            end = info.partitions[partition].end
            found[topic, partition] = [
                _message(each) for each in broker.read(topic, partition=partition, limit=10_000)
            ]
            for group in info.groups:
                states = broker.delivery_states(topic, group, partition, 0, max(end, 1))
                found[topic, partition, group] = _plain(states)
        for group in info.groups:
            found[topic, group] = _plain(broker.describe_group(topic, group))
            found[topic, group, "lags"] = [
                (each.partition, each.floor) for each in broker.describe_group(topic, group).partitions
            ]
    found["dead"] = sorted(map(str, broker.dead_letters(ORDERS)))
    return found


def _message(message: Any) -> tuple[Any, ...]:
    headers = tuple(sorted(message.headers.items()))
    return message.offset, message.key, message.value, headers, message.timestamp, message.priority


def _plain(value: Any) -> Any:
    built = msgspec.to_builtins(value)
    if isinstance(built, dict):
        return {name: each for name, each in built.items() if name not in VOLATILE}
    if isinstance(built, list):
        return [_plain(each) if isinstance(each, dict) else each for each in built]
    return built


def repeated(broker: Broker) -> tuple[bool, bool, bool]:
    """Whether the broker recognises what it was sent before: by dedup id, number and version."""
    once = broker.publish(ORDERS, b"once", dedup_id="only-once").duplicate
    numbers = broker.append(ORDERS, 1, numbered(0)).duplicate
    return once, numbers, broker.publish_staged(ORDERS, "job", 4, {}).duplicate
