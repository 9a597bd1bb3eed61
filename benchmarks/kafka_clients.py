"""Kafka's clients of a server that is measured, each in a process of its own.

    python -m benchmarks.kafka_clients WORK ADDRESS TOPIC SIZE

A client connects, prints ``ready``, waits for a line, works, and prints what it measured as JSON.
Times are of the monotonic clock, which all processes of a machine share.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

RATE = 1000  # Messages a second.
PARTITIONS = 6
WAIT_S = 10  # Longer than anything takes that works.


def ready() -> None:
    """Tell the parent, and wait for its word."""
    print("ready", flush=True)
    sys.stdin.readline()


def send(address: str, topic: str, size: int) -> None:
    """Produce at an even rate, whatever the answers; each message carries when it should have been sent."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "acks": "all"})
    producer.list_topics(topic, WAIT_S)
    ready()
    start = time.monotonic() + 0.1
    for number in range(size):
        due = start + number / RATE
        time.sleep(max(due - time.monotonic(), 0))
        producer.produce(topic, b"%.9f" % due)
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0


def follow(address: str, topic: str, size: int) -> list[float]:
    """Consume what ``send`` sends; in ms, how long each took from when it should have been sent."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "follower", "enable.auto.commit": False})
    consumer.list_topics(topic, WAIT_S)
    offsets = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    for place in offsets:
        place.offset = consumer.get_watermark_offsets(place, WAIT_S)[1]
    consumer.assign(offsets)
    consumer.poll(0.5)  # Nothing is there: from here on it waits for what comes.
    ready()
    taken: list[float] = []
    while len(taken) < size:
        message = consumer.poll(WAIT_S)
        assert message is not None, "the producer has gone"
        assert message.error() is None, message.error()
        taken.append((time.monotonic() - float(message.value() or b"0")) * 1000)
    consumer.close()
    return taken


WORK: dict[str, Callable[[str, str, int], Any]] = {"send": send, "follow": follow}

if __name__ == "__main__":
    print(json.dumps(WORK[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]))), flush=True)
