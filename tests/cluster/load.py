"""A load of native, Kafka and HTTP clients on a cluster, and a check of what they have seen.

    writers    publish one message after the other (native, aiokafka, HTTP), or a few at a time
               (confluent-kafka); those of Kafka are idempotent, and HTTP requests have a dedup id and
               are repeated until they are answered
    readers    follow every partition from its beginning, through any node

``check`` compares what they have seen with the log at the end:

    every acknowledged message exists exactly once, at its offset
    a message that was rejected does not exist; one whose outcome is unknown may exist, once
    reads are prefixes of one log: no hole, and at each offset what is there at the end
    the messages of a writer are in its order
"""

import asyncio
import http.client
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Any, Self

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from confluent_kafka import Producer
from tests.cluster.nodes import PARTITIONS, TOPIC, Nodes
from tests.server.process import until

import penstock
from penstock.errors import OutcomeUnknown

WRITERS = 8
PAGE = 1000
IN_FLIGHT_MAX = 5
KAFKA_MS_MAX = 60_000
HTTP_S_MAX = 5.0  # Then the request is repeated at another node.

Position = tuple[int, int]  # Partition and offset.


class Load:
    """Clients in threads; ``entries`` are the nodes that native ones are connected to."""

    def __init__(
        self,
        nodes: Nodes,
        entries: Sequence[int],
        *,
        writers: int = WRITERS,
        kafka: int = 0,
        aiokafka: int = 0,
        http: int = 0,
        readers: int = 0,
    ) -> None:
        self.acknowledged: dict[Position, bytes] = {}
        self.rejected: set[bytes] = set()
        self.unknown: set[bytes] = set()
        self.failures: list[str] = []  # Of writers.
        self.violations: list[str] = []  # That readers have noticed.
        self.read: dict[Position, bytes] = {}
        self.longest_s_by: dict[str, float] = {}  # Between two answers of a writer, by kind of client.
        self._run = secrets.token_hex(4)  # In each message: several loads may use a topic.
        self._nodes = nodes
        self._stop = threading.Event()
        kinds: list[tuple[str, Callable[[int, int], None], int]] = [
            ("native", self._write, writers),
            ("confluent-kafka", self._produce, kafka),
            ("aiokafka", self._produce_with_aiokafka, aiokafka),
            ("HTTP", self._post, http),
        ]
        self._kinds = [kind for kind, _, count in kinds for _ in range(count)]  # Of each writer.
        self.counts = [0] * len(self._kinds)
        writing = [target for _, target, count in kinds for _ in range(count)]
        targets = [
            *((target, number) for number, target in enumerate(writing)),
            *((self._follow, number) for number in range(readers)),
        ]
        self._threads = [
            threading.Thread(target=target, args=(number, entries[number % len(entries)]))
            for target, number in targets
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def longest_s(self) -> float:
        """Between two answers of any writer, since ``forget_pauses``."""
        return max(self.longest_s_by.values(), default=0.0)

    def forget_pauses(self) -> None:
        self.longest_s_by = {}

    def _value(self, number: int, count: int) -> bytes:
        return f"{self._run}-{number}-{count}".encode()

    def _answered(self, number: int, before_s: float) -> float:
        now_s = time.monotonic()
        kind = self._kinds[number]
        self.longest_s_by[kind] = max(self.longest_s_by.get(kind, 0.0), now_s - before_s)
        self.counts[number] += 1
        return now_s

    def _write(self, number: int, entry: int) -> None:
        with self._nodes.connect(entry) as broker:
            count, before_s = 0, time.monotonic()
            while not self._stop.is_set():
                value = self._value(number, count)
                try:
                    receipt = broker.publish(TOPIC, value, partition=number % PARTITIONS)
                except penstock.PenstockError as error:
                    self.failures.append(f"{time.monotonic():.1f} writer {number}: {error}")
                    (self.unknown if isinstance(error, OutcomeUnknown) else self.rejected).add(value)
                else:
                    assert receipt.offset is not None
                    self.acknowledged[receipt.partition, receipt.offset] = value
                    before_s = self._answered(number, before_s)
                count += 1

    def _produce(self, number: int, _: int) -> None:
        servers = ",".join(f"{server.host}:{server.ports['kafka']}" for server in self._nodes.servers)
        producer = Producer(
            {
                "bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 0,
                "message.timeout.ms": KAFKA_MS_MAX, "reconnect.backoff.max.ms": 500,
                # The default is a minute, in which it waits for a broker that stands still.
                "socket.timeout.ms": 3000, "request.timeout.ms": 3000,
                "topic.metadata.refresh.interval.ms": 1000, "log_level": 0,
            }
        )  # fmt: skip
        before_s, open_ = time.monotonic(), 0

        def delivered(error: object, message: object) -> None:
            nonlocal before_s, open_
            open_ -= 1
            value: bytes = message.value()  # type: ignore[attr-defined]
            if error is not None:
                self.failures.append(f"{time.monotonic():.1f} producer {number}: {error}")
                self.unknown.add(value)
            else:
                where = message.partition(), message.offset()  # type: ignore[attr-defined]
                self.acknowledged[where] = value
                before_s = self._answered(number, before_s)

        count = 0
        while not self._stop.is_set():
            producer.produce(
                TOPIC, self._value(number, count), partition=number % PARTITIONS, on_delivery=delivered
            )
            count, open_ = count + 1, open_ + 1
            while open_ >= IN_FLIGHT_MAX:
                producer.poll(0.1)
        assert producer.flush(KAFKA_MS_MAX / 1000) == 0

    def _produce_with_aiokafka(self, number: int, entry: int) -> None:
        asyncio.run(self._send(number, entry))

    async def _send(self, number: int, entry: int) -> None:
        servers = [f"{server.host}:{server.ports['kafka']}" for server in self._nodes.servers]
        producer = AIOKafkaProducer(
            bootstrap_servers=[*servers[entry - 1 :], *servers[: entry - 1]],
            enable_idempotence=True,
            request_timeout_ms=3000,
        )
        await producer.start()
        count, before_s = 0, time.monotonic()
        try:
            while not self._stop.is_set():
                value = self._value(number, count)
                try:
                    sent = await producer.send_and_wait(TOPIC, value, partition=number % PARTITIONS)
                except KafkaError as error:
                    self.failures.append(f"{time.monotonic():.1f} aiokafka {number}: {error!r}")
                    self.unknown.add(value)
                else:
                    self.acknowledged[sent.partition, sent.offset] = value
                    before_s = self._answered(number, before_s)
                count += 1
        finally:
            await producer.stop()

    def _post(self, number: int, entry: int) -> None:
        count, before_s = 0, time.monotonic()
        while not self._stop.is_set():
            value = self._value(number, count).decode()
            answer = self._asked(entry, value, number % PARTITIONS)
            if answer is None:
                self.unknown.add(value.encode())  # Until it is answered.
                entry = entry % len(self._nodes.servers) + 1
                continue
            self.unknown.discard(value.encode())
            self.acknowledged[answer["partition"], answer["offset"]] = value.encode()
            before_s = self._answered(number, before_s)
            count += 1

    def _asked(self, entry: int, value: str, partition: int) -> Any:
        """What a node has answered; None if it is to be asked again, or another one."""
        server = self._nodes.servers[entry - 1]
        connection = http.client.HTTPConnection(server.host, server.ports["http"], timeout=HTTP_S_MAX)
        body = json.dumps({"text": value, "dedup_id": value, "partition": partition})
        try:
            connection.request(
                "POST", f"/v1/topics/{TOPIC}/publish", body, {"content-type": "application/json"}
            )
            response = connection.getresponse()
            answer = json.loads(response.read())
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        if response.status == HTTPStatus.OK:
            return answer
        if response.status < HTTPStatus.INTERNAL_SERVER_ERROR:  # Nothing that a repeat would help against.
            self.failures.append(f"{time.monotonic():.1f} HTTP: {answer}")
        return None

    def _follow(self, number: int, entry: int) -> None:
        """Read all partitions from their beginning, again and again what is new."""
        offsets = dict.fromkeys(range(number % PARTITIONS, PARTITIONS), 0)
        with self._nodes.connect(entry) as broker:
            while not self._stop.wait(0.05):
                for partition in offsets:
                    try:
                        found = broker.read(TOPIC, partition=partition, offset=offsets[partition], limit=PAGE)
                    except penstock.PenstockError:
                        continue  # It has no owner now.
                    for message in found:
                        place = partition, message.offset
                        if message.offset != offsets[partition]:
                            self.violations.append(f"{place} was read after {offsets[partition] - 1}")
                        if self.read.setdefault(place, message.value) != message.value:
                            self.violations.append(f"{place} had two values")
                        offsets[partition] = message.offset + 1

    def wait_for(self, more: int) -> None:
        """Until each writer has been answered so many more times: no partition is without an owner."""
        before = list(self.counts)
        until(lambda: min(now - then for now, then in zip(self.counts, before, strict=True)) >= more)

    def check(self, broker: penstock.Broker) -> None:
        """The same with what a node says is there."""
        self.compare(everything(broker))

    def compare(self, found: dict[Position, bytes]) -> None:
        """Raise if one log for each partition cannot explain what the clients have seen."""
        assert self.violations == []
        assert differences(self.acknowledged, found) == {}
        assert differences(self.read, found) == {}
        mine = [value for _, value in sorted(found.items()) if value.startswith(self._run.encode())]
        assert [value for value, count in Counter(mine).items() if count > 1] == []
        assert self.rejected & set(mine) == set()
        assert set(mine) <= set(self.acknowledged.values()) | self.unknown
        for number in range(len(self.counts)):
            ours = [value for value in mine if value.startswith(self._value(number, 0)[:-1])]
            # A message of unknown outcome may come late: its writer did not wait for it.
            counts = [int(value.split(b"-")[2]) for value in ours if value not in self.unknown]
            assert counts == sorted(counts)


def differences(seen: dict[Position, bytes], found: dict[Position, bytes]) -> dict[Position, bytes]:
    return {where: value for where, value in seen.items() if found.get(where) != value}


def everything(
    broker: penstock.Broker, partitions: Iterable[int] = range(PARTITIONS)
) -> dict[Position, bytes]:
    found: dict[Position, bytes] = {}
    for partition in partitions:
        offset = 0
        while messages := broker.read(TOPIC, partition=partition, offset=offset, limit=PAGE):
            found |= {(message.partition, message.offset): message.value for message in messages}
            offset = messages[-1].offset + 1
    return found
