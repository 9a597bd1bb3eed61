"""A stream group: partitions are assigned to consumers, who read in order and commit.

As in Kafka: each partition has one consumer of the group at a time, and equal keys are in one partition,
so every key is read in order. When a consumer joins or leaves, only the partitions that must move do.

Prints:

    first alone has [0, 1, 2, 3, 4, 5]
    first read 60 readings
    with second: [0, 1, 2] and [3, 4, 5]
    read by either: 60 readings, each key in order: True
    first alone again: [0, 1, 2, 3, 4, 5]
    lag 0
"""

from collections import defaultdict

import penstock


def publish_readings(broker: penstock.Broker, start: int) -> None:
    readings = [
        penstock.Message(str(number).encode(), key=f"sensor-{sensor}")
        for number in range(start, start + 5)
        for sensor in range(12)
    ]
    broker.publish_batch("readings", readings)


def main() -> None:
    with penstock.open() as broker:
        broker.create_topic("readings", partitions=6)
        publish_readings(broker, start=0)
        first = broker.consumer("readings", group="charts", kind="stream", consumer_id="first")
        messages = first.receive(max_messages=100)
        print("first alone has", first.assignment)
        print("first read", len(messages), "readings")
        first.commit()

        second = broker.consumer("readings", group="charts", consumer_id="second")
        first.receive()  # Every receive is a heartbeat too: first learns what to give up,
        second.receive()  # and second, what it may take.
        print("with second:", first.assignment, "and", second.assignment)

        publish_readings(broker, start=5)
        seen: dict[bytes | None, list[int]] = defaultdict(list)
        for consumer in (first, second):
            for message in consumer.receive(max_messages=100):
                seen[message.key].append(int(message.value))
            consumer.commit()
        in_order = all(values == [5, 6, 7, 8, 9] for values in seen.values())
        print(f"read by either: {sum(map(len, seen.values()))} readings, each key in order: {in_order}")

        second.close()
        first.receive()
        print("first alone again:", first.assignment)
        print("lag", broker.describe_group("readings", "charts").lag)


if __name__ == "__main__":
    main()
