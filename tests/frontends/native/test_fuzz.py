"""Requests that are well formed and make no sense: every one is answered, none by a bug.

The bytes are right, the values are not: offsets that do not exist, leases of
others, numbers at the edges, options of the wrong type.  What the broker
refuses it refuses by an error of its own; ``INTERNAL`` fails the test.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.frontends.native.peer import Peer, both_loops, serving

from penstock.operations.calls import CALLS
from penstock.wire import native
from penstock.wire.native_bodies import decode_consumer_closed, decode_error_frame, encode_body, encode_call
from penstock.wire.records import encode_values

REQUESTS = 60
EDGES = (0, 1, 2, 3, 7, -1, 2**31, 2**32 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63))
WORDS = (
    "", "orders", "g", "earliest", "latest", "30s", "stream", "queue", "x" * 300, "é", "../up", "*/5 * * * *",
    "UTC", "orders:0:0", "2026-01-01T00:00:00Z", "@5", "fixed:1", "exponential:a:b",
)  # fmt: skip
OPTIONS = (
    "kind", "start", "visibility_timeout", "max_attempts", "backoff", "ordered", "delivery", "lanes",
    "session_timeout", "partitions", "durability", "compression", "retention", "ttl", "colour",
)  # fmt: skip


class Nonsense:
    """Makes requests from a seed."""

    def __init__(self, seed: int, version: int) -> None:
        self.source = random.Random(seed)
        self.version = version
        self.makers: list[Callable[[int], bytes]] = [
            self.publish, self.publish_messages, self.open, self.receive, self.credit, self.ack, self.nack,
            self.reject, self.extend, self.commit, self.heartbeat, self.ack_and_publish, self.close,
            self.fetch, self.call, self.call, self.call,
        ]  # fmt: skip

    def request(self, correlation: int) -> bytes:
        return self.source.choice(self.makers)(correlation)

    def number(self) -> int:
        return self.source.choice((*EDGES, self.source.randrange(100)))

    def consumer(self) -> int:
        return self.source.choice((1, 1, 1, 1, 2, 3, 9))

    def partition(self) -> int:
        return self.source.choice((0, 0, 0, 1, 2**32 - 1))

    def run(self) -> native.Run:
        lease = self.source.choice((1, 1, 2, self.number()))
        return self.partition(), lease, self.number(), self.number()

    def runs(self) -> list[native.Run]:
        return [self.run() for _ in range(self.source.randrange(4))]

    def value(self, depth: int = 0) -> Any:
        kinds: list[Callable[[], Any]] = [
            lambda: None,
            self.number,
            lambda: self.source.choice((0.5, -1.0, float("inf"), float("nan"), 1e300)),
            lambda: self.source.choice(WORDS),
            lambda: self.source.choice((True, False)),
            lambda: self.source.randbytes(5),
        ]
        if depth < 3:
            kinds += [lambda: [self.value(depth + 1) for _ in range(2)], lambda: self.options(depth + 1)]
        return self.source.choice(kinds)()

    def options(self, depth: int = 0) -> dict[str, Any]:
        return {self.source.choice(OPTIONS): self.value(depth) for _ in range(self.source.randrange(3))}

    def batch(self) -> bytes:
        batch = encode_values([self.source.randbytes(10) for _ in range(self.source.randrange(1, 4))], 0, 0)
        if self.source.random() < 0.3:
            batch[self.source.randrange(len(batch))] = self.source.randrange(256)
        return bytes(batch)

    def message(self) -> list[Any]:
        maybe = [None, self.number()]
        return [
            self.source.choice((b"v", None)),
            self.source.choice((None, b"k")),
            [],
            self.source.choice((0, 1, 5)),
            *(self.source.choice(maybe) for _ in range(3)),
            self.source.choice((None, "d", "")),
            self.source.choice(maybe),
        ]

    # Requests.

    def publish(self, correlation: int) -> bytes:
        batches = [(self.partition(), self.batch()) for _ in range(self.source.randrange(3))]
        version = self.source.choice((self.version, self.version, 7))
        return native.encode_publish(correlation, "orders", version, self.source.randrange(3), batches)

    def publish_messages(self, correlation: int) -> bytes:
        body = ["orders", self.source.randrange(4), [self.message()]]
        return encode_body(native.PUBLISH_MESSAGES, correlation, body)

    def open(self, correlation: int) -> bytes:
        body = {
            "topic": self.source.choice(("orders", "nobody")),
            "group": self.source.choice(("g", "other", "!")),
            "max_in_flight": self.source.choice((None, self.number())),
            "options": self.source.choice(({}, {"kind": "stream"}, self.options())),
            "resume": self.source.choice((None, b"token")),
            "held": [(0, self.number())],
            "positions": {0: self.number()},
        }
        return encode_body(native.OPEN_CONSUMER, correlation, body)

    def receive(self, correlation: int) -> bytes:
        return native.encode_receive(correlation, self.consumer(), abs(self.number()) % 2**32, 1)

    def credit(self, correlation: int) -> bytes:
        return native.encode_credit(self.consumer(), abs(self.number()) % 2**32)

    def ack(self, correlation: int) -> bytes:
        return native.encode_ack(correlation, self.consumer(), self.runs())

    def nack(self, correlation: int) -> bytes:
        delay = self.source.choice((None, self.number()))
        return encode_body(native.NACK, correlation, [self.consumer(), self.runs(), delay, "E", "m", "f"])

    def reject(self, correlation: int) -> bytes:
        return encode_body(native.REJECT, correlation, [self.consumer(), self.runs(), "no"])

    def extend(self, correlation: int) -> bytes:
        leases = [(0, self.number()), (self.number(), 1)]
        return encode_body(native.EXTEND, correlation, [self.consumer(), leases, self.number()])

    def commit(self, correlation: int) -> bytes:
        return native.encode_commit(correlation, self.consumer(), [(self.partition(), self.number())])

    def heartbeat(self, correlation: int) -> bytes:
        return native.encode_consumer(native.HEARTBEAT, correlation, self.consumer())

    def ack_and_publish(self, correlation: int) -> bytes:
        outputs = [[self.source.choice(("orders", "nobody")), self.message()]]
        return encode_body(native.ACK_AND_PUBLISH, correlation, [self.consumer(), self.runs(), outputs])

    def close(self, correlation: int) -> bytes:
        return native.encode_consumer(native.CLOSE_CONSUMER, correlation, self.consumer())

    def fetch(self, correlation: int) -> bytes:
        offset, most = self.number() % 2**63, self.number() % 2**32
        topic = self.source.choice(("orders", "nobody", ""))
        return native.encode_fetch(correlation, topic, self.partition(), offset, most, most % 2 == 0)

    def call(self, correlation: int) -> bytes:
        name = self.source.choice([*CALLS])
        given = {"topic": "orders", "name": "orders", "group": "g", "message": [b"v"]}
        arguments = {
            field.name: given[field.name]
            if field.name in given and self.source.random() < 0.8
            else self.value()
            for field in msgspec.structs.fields(CALLS[name].arguments)
            if self.source.random() < 0.9
        }
        return encode_call(correlation, name, arguments)


@both_loops
@pytest.mark.parametrize("seed", range(15))
async def test_every_request_is_answered_and_none_by_a_bug(seed: int) -> None:
    async with serving(resume_ms=1) as place:
        await place.broker.create_topic("orders", durability="memory")
        await place.broker.publish_batch("orders", [b"m"] * 20)
        peer = await place.client()
        nonsense = Nonsense(seed, (await peer.metadata("orders")).version)
        kind = "stream" if seed % 3 == 0 else "queue"
        await peer.open("orders", options={"kind": kind})
        requests = [native.encode_receive(1, 1, 5, 0)]
        requests += [nonsense.request(100 + number) for number in range(REQUESTS)]

        peer.send(b"".join(requests))
        peer.writer.write_eof()
        answered = await answers(peer)

        wanted = [1, *range(100, 100 + REQUESTS)]
        silent = (native.CREDIT, native.PUBLISH, native.PUBLISH_MESSAGES)
        for correlation, request in zip(wanted, requests, strict=True):
            assert correlation in answered or request[0] in silent


async def answers(peer: Peer) -> set[int]:
    """The correlations of everything that comes."""
    found: set[int] = set()
    while True:
        try:
            opcode, body = await peer.frame()
        except asyncio.IncompleteReadError:
            return found
        found.add(native.correlation_of(body))
        if opcode == native.ERROR:
            assert decode_error_frame(body).code != "INTERNAL"
        elif opcode == native.CONSUMER_CLOSED:
            assert decode_consumer_closed(body)[1].code != "INTERNAL"
