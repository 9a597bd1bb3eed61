"""Staging by hand, for the tests."""

from collections.abc import Sequence

from penstock.api.broker import Broker
from penstock.wire.records import BatchBuilder, Headers
from penstock.wire.staged import encode_staged

Staged = dict[str, list[tuple[int, int]]]


def batch(
    values: Sequence[bytes], attributes: int = 0, headers: Headers | None = None, times: Sequence[int] = ()
) -> bytes:
    """A record batch as a task encodes it; ``times`` are its records' own, which rise."""
    builder = BatchBuilder()
    for at, value in enumerate(values):
        builder.add(b"k", value, headers or [], times[at] - times[0] if times else 0)
    return bytes(builder.build(times[0] if times else 0, times[-1] if times else 0, attributes))


def stage(broker: Broker, token: str, *parts: tuple[int, bytes], topic: str = "orders") -> Staged:
    """Stage batches, each for a partition; what to publish them by."""
    first = broker.stage(topic, encode_staged(token, list(parts)))
    return {token: [(first, first + len(parts))]}


def values_of(broker: Broker, topic: str, partition: int | None = None) -> list[bytes]:
    """All there is."""
    return [message.value or b"" for message in broker.read(topic, partition=partition, limit=10_000)]
