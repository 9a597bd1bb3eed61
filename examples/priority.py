"""Priority: the highest lane first, or every lane its share.

Lanes are critical, high, normal, low and background. They are an index over one log, not separate queues:
offsets, replay and order by key are those of the one log.

Prints:

    strict:   high high high low low low
    weighted: nobody waits for ever: True
    in the log, as published: low high low high low high
"""

import penstock


def main() -> None:
    with penstock.open() as broker:
        broker.create_topic("jobs")
        for _ in range(3):
            broker.publish("jobs", b"a report", priority="low")
            broker.publish("jobs", b"an alarm", priority="high")

        with broker.consumer("jobs", group="strict") as consumer:
            print("strict:  ", *(message.priority for message in consumer.receive(max_messages=6)))

        broker.create_topic("busy")
        broker.publish_batch("busy", [penstock.Message(b"a report", priority="low")])
        broker.publish_batch("busy", [penstock.Message(b"an alarm", priority="high")] * 100)
        with broker.consumer("busy", group="weighted", lanes="weighted") as consumer:
            first_half = [message.priority for _ in range(50) for message in consumer.receive()]
        print("weighted: nobody waits for ever:", "low" in first_half)

        print("in the log, as published:", *(message.priority for message in broker.read("jobs")))


if __name__ == "__main__":
    main()
