"""Write the stored data directories of tests/data: some of everything, as this version writes it.

    python scripts/make_test_data.py tests/data/format-1

Later versions must read these bytes (tests/crash/test_broker_format.py), so an
existing directory is never written again: when the format changes, make
another one beside it and keep the old.  The clock is fixed, so the same
version always writes the same.

    closed/     the broker was closed
    killed/     it was killed: no index of the last segments, leases still held, a journal after its snapshot
"""

import shutil
import sys
from pathlib import Path

from penstock.config.broker import BrokerConfig
from penstock.log.files import SystemFiles
from penstock.model.message import Message
from penstock.testing import ManualClock, TestBroker

CONFIG = BrokerConfig(clock_check_ms=24 * 3600 * 1000)


def write(directory: Path, *, closed: bool) -> None:
    """Make one data directory."""
    clock = ManualClock()
    broker = TestBroker.open(str(directory), config=CONFIG, files=SystemFiles(), clock=clock)
    broker.create_topic("orders", partitions=2, segment_bytes=4096, retention=None)
    broker.create_topic("packed", compression="gzip", retention="30d")
    broker.create_topic("out", retention=None)
    publish(broker)
    consume(broker)
    broker.advance("65s")  # Upkeep: a snapshot.  Part of what was delayed is due.
    consume_more(broker)
    if closed:
        broker.close()
    (directory / "LOCK").unlink()


def publish(broker: TestBroker) -> None:
    """Lanes, keys, headers, dedup ids, time to live, a tombstone, a batch, an idempotent producer, delays."""
    for number in range(12):
        broker.publish(
            "orders",
            b"order %d " % number * 100,
            key=f"customer-{number % 3}",
            headers={"content-type": "text/plain", "number": str(number)},
            priority=("normal", "normal", "high", "low")[number % 4],
            partition=number % 2,
            dedup_id=f"order-{number}",
        )
    broker.publish("orders", b"short-lived", ttl="1s", partition=1)
    broker.publish("orders", None, key="customer-0", partition=1)
    broker.publish_batch("packed", [Message(b"packed %d " % number * 20) for number in range(10)])
    producer = broker.producer()
    for number in range(3):
        producer.publish("out", b"numbered %d" % number)
    broker.publish("orders", b"in half a minute", delay="30s", partition=0)
    broker.publish("orders", b"in an hour", delay="1h", partition=0, priority="critical")
    broker.publish("orders", b"in a week", delay="7d", partition=1)
    cancelled = broker.publish("orders", b"cancelled", delay="2h", partition=0)
    broker.cancel(cancelled.id)
    moved = broker.publish("orders", b"moved", delay="2h", partition=0)
    broker.reschedule(moved.id, delay="3h")
    broker.schedule("orders", b"every morning", cron="0 7 * * *", timezone="Europe/Berlin", partition=0)


def consume(broker: TestBroker) -> None:
    """Acks, a nack, a dead letter, an output, a stream group, a group that was moved."""
    consumer = broker.consumer("orders", group="work", consumer_id="first", visibility_timeout="10h")
    messages = sorted(consumer.receive(8), key=lambda message: (message.partition, message.offset))
    consumer.ack(messages[:2])
    messages[2].nack(delay="2h", error=ValueError("no such customer 17"))
    messages[3].reject("not an order")
    consumer.ack(messages[4], publish=[("out", Message(b"invoice", key="customer-0"))])
    messages[5].extend("11h")
    reader = broker.consumer("orders", group="flow", consumer_id="reader", kind="stream")
    reader.receive(5)
    reader.commit()
    broker.create_group("orders", "moved", max_attempts=7, backoff=["1s", "1m"])
    broker.seek("orders", "moved", 3, partition=0)
    broker.create_group("orders", "ordered", ordered=True, lanes="weighted")
    broker.consumer("orders", group="ordered", consumer_id="careful").receive(4)


def consume_more(broker: TestBroker) -> None:
    """After the snapshot."""
    consumer = broker.consumer("orders", group="work", consumer_id="second", visibility_timeout="10h")
    for message in consumer.receive(2):
        message.ack()
    broker.redrive("orders")


def main(target: Path) -> None:
    """Write both directories, which must not exist."""
    if target.exists():
        raise SystemExit(f"{target} exists, and stored data is never written again")
    for name, closed in (("closed", True), ("killed", False)):
        write(target / name, closed=closed)
    for path in target.rglob("far"):
        shutil.rmtree(path)  # Far due times, which mean nothing to the next process.


if __name__ == "__main__":
    main(Path(sys.argv[1]))
