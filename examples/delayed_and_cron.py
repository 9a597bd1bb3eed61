"""Later, and again and again: delays, a point in time, cron.

What is not due waits in the schedule, on disk, and enters the log when its time has come; until then it
can be listed, moved and cancelled. This example runs in virtual time (``penstock.testing``), so that nobody
has to wait until Monday; with ``penstock.open`` the calls are the same.

Prints:

    3 wait: in 30 minutes, at nine, and every Monday
    00:30  a reminder
    cancelled
    Monday 2026-01-05 07:00  the weekly report
    Monday 2026-01-12 07:00  the weekly report
"""

from datetime import UTC, datetime

import penstock
import penstock.testing


def print_due(consumer: penstock.Consumer, form: str) -> None:
    for message in consumer.receive(max_messages=10):
        with message:
            print(f"{message.published_at:{form}}  {message.value.decode()}")


def main() -> None:
    with penstock.testing.open() as broker:  # Its clock starts on Thursday, 2026-01-01, at midnight UTC.
        broker.create_topic("tasks")
        consumer = broker.consumer("tasks")

        broker.publish("tasks", b"a reminder", delay="30m")
        at_nine = broker.publish("tasks", b"a call", deliver_at=datetime(2026, 1, 1, 9, tzinfo=UTC))
        broker.schedule("tasks", b"the weekly report", cron="0 8 * * MON", timezone="Europe/Berlin")
        print(broker.scheduled_count("tasks"), "wait: in 30 minutes, at nine, and every Monday")

        broker.advance("30m")
        print_due(consumer, "%H:%M")
        print(broker.cancel(at_nine.id))
        for _ in range(2):
            broker.advance("7d")
            print_due(consumer, "%A %Y-%m-%d %H:%M")


if __name__ == "__main__":
    main()
