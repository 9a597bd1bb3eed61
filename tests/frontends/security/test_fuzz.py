"""Whatever somebody sends who may only read: nothing changes, and no answer is a bug."""

from typing import Any

import pytest
from tests.frontends.native.test_fuzz import Nonsense, answers
from tests.frontends.security.secured import Secured, secured

from penstock.wire import native
from penstock.wire.native_bodies import Hello, encode_body

REQUESTS = 300


async def state(place: Secured) -> Any:
    """All that a request could have changed."""
    broker, found = place.broker, []
    for name in await broker.topics():
        topic = await broker.describe_topic(name)
        ends = [(one.start, one.end) for one in topic.partitions]
        found.append((name, topic.settings, topic.groups, ends, await broker.scheduled_count(name)))
    return found, await broker.keys(), await broker.users()


@pytest.mark.parametrize("seed", range(10))
async def test_a_reader_changes_nothing(seed: int) -> None:
    async with secured() as place:
        await place.broker.publish_batch("orders", [b"m"] * 20)
        await place.broker.create_group("orders", "g")
        key = await place.key("reader")
        version, _ = await place.broker.run(place.broker.operations.metadata("orders"))
        nonsense = Nonsense(seed, version)
        before = await state(place)

        peer = await place.peer()
        peer.send(encode_body(native.HELLO, 1, Hello(versions=[1], client="test", key=key)))
        assert (await peer.frame())[0] == native.OK
        peer.send(b"".join(nonsense.request(100 + number) for number in range(REQUESTS)))
        peer.writer.write_eof()
        answered = await answers(peer)

        assert len(answered) > REQUESTS / 2
        assert await state(place) == before
