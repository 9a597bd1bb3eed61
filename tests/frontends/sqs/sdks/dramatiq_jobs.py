# mypy: ignore-errors
# ruff: noqa: T201
"""Runs tasks of Dramatiq, of which one fails twice, and one comes later.  Argument: the URL of the server."""

import sys
import threading

import dramatiq
from dramatiq.middleware import Retries
from dramatiq_sqs import SQSBroker

TASKS = 12
PATIENCE_S = 60

broker = SQSBroker(
    namespace="jobs",
    endpoint_url=sys.argv[1],
    region_name="us-east-1",
    aws_access_key_id="key",
    aws_secret_access_key="secret",
    middleware=[Retries(min_backoff=100, max_backoff=500)],
)
dramatiq.set_broker(broker)
done: list[str] = []
complete = threading.Event()
failures = iter(("first", "second"))


def note(result: str) -> None:
    done.append(result)
    if len(done) == TASKS:
        complete.set()


@dramatiq.actor
def add(one: int, other: int) -> None:
    note(str(one + other))


@dramatiq.actor(queue_name="other")
def flaky() -> None:
    if (failure := next(failures, None)) is not None:
        raise ValueError(failure)
    note("flaky")


worker = dramatiq.Worker(broker, worker_timeout=100, worker_threads=2)
worker.start()
for number in range(10):
    add.send(number, 1)
add.send_with_options(args=(1000, 1), delay=1000)
flaky.send()
complete.wait(PATIENCE_S)
worker.stop()
print(*sorted(done))
