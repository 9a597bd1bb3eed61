"""Clients at work on a server that comes and goes; run in processes of their own by ``crew.py``.

    python load.py <url> <role> <number>

Every thread works with one connection, and tells on stdout what it was
answered, in words that ``ledger.py`` reads.  What is told is told after the answer,
so a line may be missing for something that was answered, and never the other
way round.  The only error a program may meet is ``LeaseLost``: the server that lent
the message is not there any more.  Any other ends the process.  At the end of
stdin each thread finishes what it has begun.
"""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from random import Random

import penstock
from penstock.client.sync import RemoteBroker
from penstock.errors import AlreadySettled, LeaseLost
from penstock.model.message import Message, Receipt, ReceivedMessage

TOPIC = "work"
OUT = "out"
# A server that is killed again and again lives for a second or so, and a client may be in a pause between two
# tries each time: 60 s were over once in 150 power cuts, on a machine with a load of 20.  But it is less than
# the window of deduplication: a delayed message is not sent again otherwise.
REQUEST_TIMEOUT = "4m"
# What becomes of a message, by the first letter of its value: (a)ck, (f)orward, (x) reject, (n)ack, then ack.
KINDS = (b"a", b"a", b"f", b"n", b"a", b"x")


class Load:
    """The threads of one process."""

    def __init__(self, broker: RemoteBroker, number: int) -> None:
        self._broker = broker
        self._number = number
        self._random = Random(number)
        self._stop = threading.Event()
        self._lock = threading.Lock()  # Of stdout.
        self.roles: dict[str, tuple[Callable[[], None], ...]] = {
            "publish": (self.publish_singly, self.publish_batches, self.publish_later, self.publish_nowait),
            "consume": (self.consume, self.consume),
            "prefetch": (self.consume_prefetched, self.consume_stream),
        }

    def run(self, role: str) -> None:
        threads = [threading.Thread(target=self._guard, args=(job,)) for job in self.roles[role]]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        self._stop.set()
        for thread in threads:
            thread.join()

    def _guard(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test must hear of it
            self.tell("failed", repr(error), traceback.format_exc().replace("\n", " | "))
            os._exit(1)

    def tell(self, *words: object) -> None:
        line = " ".join(map(str, words)) + "\n"
        with self._lock:
            sys.stdout.write(line)
            sys.stdout.flush()

    # Publishers.

    def publish_singly(self) -> None:
        """One by one, each to the same partition, so that their order can be checked."""
        number = 0
        while not self._stop.is_set():
            value = b"%s-%d-%d-one" % (KINDS[number % len(KINDS)], self._number, number)
            receipt = self._broker.publish(TOPIC, value, partition=self._number % 2)
            self._published([receipt], [value])
            number += 1

    def publish_batches(self) -> None:
        number = 0
        while not self._stop.is_set():
            count = number % 20 + 1
            values = [b"a-%d-%d-%d-batch" % (self._number, number, index) for index in range(count)]
            self._published(self._broker.publish_batch(TOPIC, values), values)
            number += 1

    def publish_later(self) -> None:
        number = 0
        while not self._stop.is_set():
            value = b"a-%d-%d-later" % (self._number, number)
            receipt = self._broker.publish(TOPIC, value, delay=number % 10 / 20)
            assert not receipt.duplicate
            self.tell("later", value.decode())
            number += 1

    def publish_nowait(self) -> None:
        number = 0
        while not self._stop.is_set():
            values = [b"a-%d-%d-%d-nowait" % (self._number, number, index) for index in range(5)]
            futures: list[Future[Receipt]] = [
                self._broker.publish_nowait(TOPIC, value, priority="high" if number % 3 == 0 else 0)
                for value in values
            ]
            self._published([future.result() for future in futures], values)
            number += 1

    def _published(self, receipts: list[Receipt], values: list[bytes]) -> None:
        assert not any(receipt.duplicate for receipt in receipts)
        places = (
            f"{receipt.partition}:{receipt.offset}:{value.decode()}"
            for receipt, value in zip(receipts, values, strict=True)
        )
        self.tell("published", *places)

    # Consumers.

    def consume(self) -> None:
        with self._broker.consumer(TOPIC, group="workers") as consumer:
            while not self._stop.is_set():
                asked_ns = time.monotonic_ns()
                messages = consumer.receive(10, wait="200ms")
                if messages:
                    self.tell("received", asked_ns, *map(place, messages))
                    self._settle(consumer, messages)

    def _settle(self, consumer: penstock.Consumer, messages: list[ReceivedMessage]) -> None:
        done = [
            message for message in messages if message.value[:1] not in b"fx" and not self._nacked(message)
        ]
        self._try(lambda: consumer.ack(done), "acked", done)
        for message in messages:
            if message.value[:1] == b"f":
                output = [(OUT, Message(message.value))]
                self._try(lambda m=message, o=output: consumer.ack(m, publish=o), "acked", [message])  # type: ignore[misc]
            elif message.value[:1] == b"x":
                self._try(lambda m=message: m.reject("poison"), "acked", [message])  # type: ignore[misc]

    def _nacked(self, message: ReceivedMessage) -> bool:
        if message.value[:1] != b"n" or self._random.random() < 0.5:
            return False
        self._try(lambda: message.nack(delay=0.01, error=ValueError("again")), "nacked", [message])
        return True

    def _try(self, answer: Callable[[], None], word: str, messages: list[ReceivedMessage]) -> None:
        try:
            answer()
        except (LeaseLost, AlreadySettled):
            return  # It was lent by a server that is gone; whether the answer came through is not known.
        if messages:
            self.tell(word, time.monotonic_ns(), *map(place, messages))

    def consume_prefetched(self) -> None:
        """All that a group of its own gets, pushed; after an ack was answered, none of it again."""
        acked: set[tuple[int, int]] = set()
        with self._broker.consumer(TOPIC, group="prefetched", prefetch=100) as consumer:
            while not self._stop.is_set():
                for message in consumer.receive(10, wait="200ms"):
                    assert (message.partition, message.offset) not in acked, f"{message} was acked"
                    try:
                        message.ack()
                    except (LeaseLost, AlreadySettled):
                        continue
                    acked.add((message.partition, message.offset))
                self.tell("prefetched", len(acked))

    def consume_stream(self) -> None:
        """In the order of the log: without a gap, and never from before what was committed."""
        following: dict[int, int] = {}
        committed: dict[int, int] = {}
        with self._broker.consumer(TOPIC, group="stream", kind="stream") as consumer:
            while not self._stop.is_set():
                messages = consumer.receive(50, wait="200ms")
                for message in messages:
                    number, offset = message.partition, message.offset
                    expected = (committed.get(number, 0), following.get(number, 0))
                    assert expected[0] <= offset <= expected[1], f"{number}:{offset}, expected {expected}"
                    following[number] = offset + 1
                if messages:
                    reached = dict(following)
                    consumer.commit()
                    committed = reached
                    self.tell("streamed", sum(following.values()))


def place(message: ReceivedMessage) -> str:
    return f"{message.partition}:{message.offset}"


def main(url: str, role: str, number: int) -> None:
    with penstock.connect(url, request_timeout=REQUEST_TIMEOUT) as broker:
        load = Load(broker, number)
        load.tell("begun")
        load.run(role)
        load.tell("done")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
