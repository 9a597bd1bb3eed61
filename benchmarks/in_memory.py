"""The public sync API of one process, all in memory, messages of 100 bytes.

The limit of each is the plainest queue in Python that gives the same answers to
one caller: a deque, a lock around each call, and a list handed back.  It has no
log, no leases, no receipts and no consumers, so nothing can be as quick.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

import penstock
from benchmarks.model import Benchmark, Round, Rounds, Target

VALUE = b"x" * 100
BATCH = 100


class PlainQueue:
    """The limit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: deque[bytes] = deque()

    def publish(self, value: bytes) -> int:
        """Take one; answers how many there are."""
        with self._lock:
            self._messages.append(value)
            return len(self._messages)

    def publish_batch(self, values: list[bytes]) -> list[int]:
        """Take many, one by one as a caller's loop would; answers their places."""
        places: list[int] = []
        with self._lock:
            for value in values:
                self._messages.append(value)
                places.append(len(self._messages))
        return places

    def receive(self, count: int) -> list[bytes]:
        """Up to ``count``."""
        received: list[bytes] = []
        with self._lock:
            while self._messages and len(received) < count:
                received.append(self._messages.popleft())
        return received

    def ack(self, messages: list[bytes]) -> None:
        """The lock is all there is to it."""
        with self._lock:
            messages.clear()


def _round(count: int, work: Callable[[], None], limit: Callable[[], None]) -> Round:
    """Both sides once, as messages a second."""
    started, cpu_started = time.perf_counter(), time.process_time()
    work()
    cpu, elapsed = time.process_time() - cpu_started, time.perf_counter() - started
    started = time.perf_counter()
    limit()
    return Round(
        measured=count / elapsed, limit=count / (time.perf_counter() - started), cpu=count / max(cpu, 1e-9)
    )


def publish_batch(size: int) -> Rounds:
    """Batches of 100 values; a new broker for each round."""
    values = [VALUE] * BATCH
    while True:
        with penstock.open() as broker:
            broker.create_topic("numbers")
            plain = PlainQueue()

            def work(broker: penstock.Broker = broker) -> None:
                for _ in range(size // BATCH):
                    broker.publish_batch("numbers", values)

            def limit(plain: PlainQueue = plain) -> None:
                for _ in range(size // BATCH):
                    plain.publish_batch(values)

            yield _round(size, work, limit)


def publish_messages(size: int) -> Rounds:
    """Batches of 100 ``Message`` objects with a key and a header each, made on the way."""
    headers = {"content-type": "application/json"}
    while True:
        with penstock.open() as broker:
            broker.create_topic("numbers")
            plain = PlainQueue()

            def work(broker: penstock.Broker = broker) -> None:
                for _ in range(size // BATCH):
                    batch = [
                        penstock.Message(VALUE, key="customer-17", headers=headers) for _ in range(BATCH)
                    ]
                    broker.publish_batch("numbers", batch)

            def limit(plain: PlainQueue = plain) -> None:
                for _ in range(size // BATCH):
                    plain.publish_batch([VALUE for _ in range(BATCH)])

            yield _round(size, work, limit)


def publish_one(size: int) -> Rounds:
    """One call for each message."""
    while True:
        with penstock.open() as broker:
            broker.create_topic("numbers")
            plain = PlainQueue()

            def work(broker: penstock.Broker = broker) -> None:
                for _ in range(size):
                    broker.publish("numbers", VALUE)

            def limit(plain: PlainQueue = plain) -> None:
                for _ in range(size):
                    plain.publish(VALUE)

            yield _round(size, work, limit)


def receive_batch(size: int) -> Rounds:
    """``receive(100)`` and ``ack`` of the list."""
    return _receive(size, BATCH)


def receive_one(size: int) -> Rounds:
    """``receive()`` and ``message.ack()``."""
    return _receive(size, 1)


def _receive(size: int, batch: int) -> Rounds:
    while True:
        with penstock.open() as broker:
            broker.create_topic("numbers")
            plain = PlainQueue()
            for _ in range(size // BATCH):
                broker.publish_batch("numbers", [VALUE] * BATCH)
                plain.publish_batch([VALUE] * BATCH)
            with broker.consumer("numbers", group="readers") as consumer:

                def work(consumer: penstock.Consumer = consumer) -> None:
                    done = 0
                    while messages := consumer.receive(batch):
                        done += len(messages)
                        if batch == 1:
                            messages[0].ack()
                        else:
                            consumer.ack(messages)
                    assert done == size, "everything is delivered once"

                def limit(plain: PlainQueue = plain) -> None:
                    while messages := plain.receive(batch):
                        plain.ack(messages)

                yield _round(size, work, limit)


_MILLION = Target(value=1_000_000, direction="at least")
_HUNDRED_THOUSAND = Target(value=100_000, direction="at least")
_PLAIN = "deque and lock in a plain loop"

BENCHMARKS = [
    Benchmark(
        name="publish-batch",
        what="in memory: publish_batch of 100 values of 100 bytes",
        unit="msg/s",
        limit=_PLAIN,
        run=publish_batch,
        sizes={"tiny": 200, "quick": 100_000, "full": 1_000_000},
        target=_MILLION,
        grows="messages in the log",
    ),
    Benchmark(
        name="receive-batch",
        what="in memory: receive(100) and ack of the list",
        unit="msg/s",
        limit=_PLAIN,
        run=receive_batch,
        sizes={"tiny": 200, "quick": 100_000, "full": 1_000_000},
        target=_MILLION,
        grows="messages in the log",
    ),
    Benchmark(
        name="publish-one",
        what="in memory: publish, one by one",
        unit="msg/s",
        limit=_PLAIN,
        run=publish_one,
        sizes={"tiny": 200, "quick": 20_000, "full": 200_000},
        target=_HUNDRED_THOUSAND,
        grows="messages in the log",
    ),
    Benchmark(
        name="receive-one",
        what="in memory: receive and ack, one by one",
        unit="msg/s",
        limit=_PLAIN,
        run=receive_one,
        sizes={"tiny": 200, "quick": 20_000, "full": 200_000},
        target=_HUNDRED_THOUSAND,
        grows="messages in the log",
    ),
    Benchmark(
        name="publish-messages",
        what="in memory: publish_batch of 100 Message objects with key and header, making them included",
        unit="msg/s",
        limit=_PLAIN,
        run=publish_messages,
        sizes={"tiny": 200, "quick": 50_000, "full": 500_000},
    ),
]
