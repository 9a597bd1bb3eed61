"""KQueue's clients, byte by byte."""

import asyncio
import json
import uuid
from pathlib import Path

import pytest
from tests.frontends.native.peer import Peer, Place, both_loops, serving, until

from penstock.broker.queue.queues import CONNECTION_LOST
from penstock.frontends.kqueue.session import PRIVATE
from penstock.model.ids import message_uuid
from penstock.transport.frames import plain_frame

PUB, SUB, ACK, PING, DELIVERY = 1, 2, 3, 4, 5


def command(opcode: int, **fields: object) -> bytes:
    """A frame as KQueue's clients make it."""
    body = json.dumps(fields, separators=(",", ":")).encode()
    return bytes([opcode]) + len(body).to_bytes(4, "big") + body


async def say(peer: Peer, data: bytes) -> bytes:
    peer.send(data)
    return await peer.line()


async def subscribed(place: Place, topic: str = "t", group: str | None = "default") -> Peer:
    """A subscriber of a group, or without one."""
    peer = await place.connect()
    named = {} if group is None else {"Group": group}
    assert await say(peer, command(SUB, Topic=topic, **named)) == f"OK Subscribed to {topic}\n".encode()
    return peer


async def groups_become(place: Place, names: list[str]) -> None:
    """Wait until the topic ``t`` has these groups."""
    async with asyncio.timeout(30):
        while sorted(await place.broker.groups("t")) != names:  # noqa: ASYNC110 - nothing tells.
            await asyncio.sleep(0)


async def delivery(peer: Peer) -> dict[str, str]:
    opcode, body = await peer.frame()
    assert opcode == DELIVERY
    told: dict[str, str] = json.loads(body)
    return told


@both_loops
async def test_the_demo_of_kqueue_byte_by_byte() -> None:
    """SUB and PUB on one connection, with the frames of the shipped client."""
    sub = b'\x02\x00\x00\x00\x1d{"Topic":"test_binary_topic"}'
    pub = (
        b'\x01\x00\x00\x00\x88{"Topic":"test_binary_topic","Message":{"ID":"6ba7b810-9dad-11d1-80b4-00c04fd430c8",'
        b'"Payload":"Hello from the binary protocol, twice!"}}'
    )
    assert (len(sub), len(pub)) == (34, 141)
    name = message_uuid("test_binary_topic", 0, 0)
    pushed = b'{"ID":"%s","Payload":"Hello from the binary protocol, twice!"}' % name.encode()
    async with serving() as place:
        peer = await place.connect()

        peer.send(sub)
        assert await peer.read(33) == b"OK Subscribed to test_binary_topic\n"[:33]
        assert await peer.read(2) == b"c\n"
        peer.send(pub)
        assert await peer.line() == b"OK Published %s\n" % name.encode()
        assert await peer.read(5 + len(pushed)) == b"\x05" + len(pushed).to_bytes(4, "big") + pushed
        assert await say(peer, command(ACK, MessageID=name)) == b"OK ACK\n"

        [name] = await place.broker.groups("test_binary_topic")
        group = await place.broker.describe_group("test_binary_topic", name)
        assert (group.lag, group.acked) == (0, 1)


@both_loops
async def test_an_answer_is_alone_in_what_a_client_reads_first(tmp_path: Path) -> None:
    """KQueue's clients read once for each command, and take that for the answer."""
    async with serving(str(tmp_path / "data")) as place:
        reads: list[bytes] = []
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: Reads(reads), "127.0.0.1", place.port
        )
        transport.write(command(SUB, Topic="t"))
        await until(lambda: reads == [b"OK Subscribed to t\n"])
        for _ in range(10):
            reads.clear()

            transport.write(command(PUB, Topic="t", Payload="hello"))
            await until(lambda: len(reads) == 2)

            assert reads[0].startswith(b"OK Published ")
            assert reads[0].index(b"\n") == len(reads[0]) - 1
            assert reads[1].startswith(b"\x05")
        transport.abort()


class Reads(asyncio.Protocol):
    """Notes what each read brings."""

    def __init__(self, reads: list[bytes]) -> None:
        self._reads = reads

    def data_received(self, data: bytes) -> None:
        self._reads.append(data)


@both_loops
@pytest.mark.parametrize(
    "body",
    [
        {"Topic": "t", "Payload": "p"},
        {"topic": "t", "payload": "p"},
        {"TOPIC": "t", "pAyLoAd": "p", "Unknown": 7},
        {"Topic": "t", "Message": {"ID": "x", "Payload": "p"}},
        {"topic": "t", "MESSAGE": {"id": "x", "PAYLOAD": "p"}},
    ],
)
async def test_both_bodies_of_pub_are_taken_without_regard_to_case(body: dict[str, object]) -> None:
    async with serving() as place:
        peer = await subscribed(place)

        assert (await say(peer, command(PUB, **body))).startswith(b"OK Published ")

        assert (await delivery(peer))["Payload"] == "p"


@both_loops
async def test_an_id_is_a_uuid_and_the_same_in_answer_and_delivery() -> None:
    async with serving() as place:
        peer = await subscribed(place)

        line = await say(peer, command(PUB, Topic="t", Payload="p"))
        name = line.decode().removeprefix("OK Published ").strip()

        assert str(uuid.UUID(name)) == name
        assert (await delivery(peer))["ID"] == name


@both_loops
async def test_a_topic_is_made_by_sub_alone() -> None:
    async with serving() as place:
        peer = await place.connect()

        refused = await say(peer, command(PUB, Topic="t", Payload="p"))
        await say(peer, command(SUB, Topic="t"))
        accepted = await say(peer, command(PUB, Topic="t", Payload="p"))

    assert refused == b"ERR Topic not found. Try subscribing first.\n"
    assert accepted.startswith(b"OK Published ")


@both_loops
async def test_a_full_topic_is_told_in_kqueues_words() -> None:
    async with serving() as place:
        await place.broker.create_topic("t", durability="memory", depth_max=1)
        await place.broker.create_group("t", "default")
        peer = await place.connect()

        assert (await say(peer, command(PUB, Topic="t", Payload="p"))).startswith(b"OK Published ")
        assert (
            await say(peer, command(PUB, Topic="t", Payload="p")) == b"ERR Queue full, backpressure applied\n"
        )


@both_loops
async def test_an_ack_for_nothing_is_told_in_kqueues_words() -> None:
    async with serving() as place:
        peer = await subscribed(place)
        await say(peer, command(PUB, Topic="t", Payload="p"))
        name = (await delivery(peer))["ID"]

        first = await say(peer, command(ACK, messageid=name))
        again = await say(peer, command(ACK, MessageID=name))
        unknown = await say(peer, command(ACK, MessageID="nobody"))

    assert first == b"OK ACK\n"
    assert again == unknown == b"ERR Message ID not found or already acknowledged.\n"


@both_loops
async def test_any_connection_may_acknowledge_any_delivery() -> None:
    async with serving() as place:
        peer, other = await subscribed(place), await place.connect()
        await say(peer, command(PUB, Topic="t", Payload="p"))
        name = (await delivery(peer))["ID"]

        assert await say(other, command(ACK, MessageID=name)) == b"OK ACK\n"
        assert (await place.broker.describe_group("t", "default")).lag == 0


@both_loops
async def test_a_repeated_ack_does_not_settle_the_message_of_another_subscriber() -> None:
    async with serving() as place:
        peer, other = await subscribed(place, group="mine"), await subscribed(place, group="theirs")
        await say(peer, command(PUB, Topic="t", Payload="p"))
        name = (await delivery(peer))["ID"]
        assert (await delivery(other))["ID"] == name

        answers = [await say(peer, command(ACK, MessageID=name)) for _ in range(2)]

        assert answers == [b"OK ACK\n", b"ERR Message ID not found or already acknowledged.\n"]
        assert (await place.broker.describe_group("t", "theirs")).in_flight == 1
        assert await say(other, command(ACK, MessageID=name)) == b"OK ACK\n"


@both_loops
async def test_ping_is_answered() -> None:
    async with serving() as place:
        peer = await place.connect()

        assert await say(peer, b"\x04\x00\x00\x00\x00") == b"OK PONG\n"


@both_loops
@pytest.mark.parametrize(("opcode", "name"), [(PUB, b"PUB"), (SUB, b"SUB"), (ACK, b"ACK")])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"Topic":7,"MessageID":7}'])
async def test_a_body_that_is_not_what_it_should_be_is_told_and_the_connection_goes_on(
    opcode: int, name: bytes, body: bytes
) -> None:
    async with serving() as place:
        peer = await place.connect()

        line = await say(peer, plain_frame(opcode, body))

        assert line.startswith(b"ERR Decoding %s payload: " % name)
        assert await say(peer, b"\x04\x00\x00\x00\x00") == b"OK PONG\n"


@both_loops
async def test_a_name_that_is_not_allowed_is_told_and_the_connection_goes_on() -> None:
    async with serving() as place:
        peer = await place.connect()

        line = await say(peer, command(SUB, Topic="no/good"))

        assert line.startswith(b"ERR topic name 'no/good' is not allowed")
        assert await say(peer, b"\x04\x00\x00\x00\x00") == b"OK PONG\n"


@both_loops
async def test_an_unknown_command_is_told_and_the_connection_goes_on() -> None:
    async with serving() as place:
        peer = await subscribed(place)

        assert await say(peer, plain_frame(0x2A, b"{}")) == b"ERR Unknown Command Type: 2a\n"
        assert await say(peer, b"\x04\x00\x00\x00\x00") == b"OK PONG\n"


@both_loops
async def test_a_frame_that_is_too_long_is_told_and_the_connection_closed() -> None:
    async with serving(frame_bytes_max=1000) as place:
        peer = await place.connect()

        peer.send(b"\x01\xff\xff\xff\xff")

        assert (await peer.rest()).startswith(b"ERR a frame has 4294967295 bytes")


@both_loops
async def test_every_subscriber_gets_every_message() -> None:
    """KQueue's fan-out: SUB without a group, in the order in which the messages were published."""
    async with serving() as place:
        early = await subscribed(place, group=None)
        sender = await place.connect()
        await say(sender, command(PUB, Topic="t", Payload="first"))
        late = await subscribed(place, group=None)
        for number in range(20):
            await say(sender, command(PUB, Topic="t", Payload=str(number)))

        expected = [str(number) for number in range(20)]
        assert [(await delivery(early))["Payload"] for _ in range(21)] == ["first", *expected]
        got = [await delivery(late) for _ in range(20)]
        assert [each["Payload"] for each in got] == expected

        # Each acknowledges for itself.
        assert await say(late, command(ACK, MessageID=got[0]["ID"])) == b"OK ACK\n"
        assert await say(early, command(ACK, MessageID=got[0]["ID"])) == b"OK ACK\n"
        groups = [await place.broker.describe_group("t", name) for name in await place.broker.groups("t")]
        assert sorted((group.acked, group.in_flight) for group in groups) == [(1, 19), (1, 20)]


@both_loops
async def test_the_group_of_a_single_subscriber_ends_with_its_connection() -> None:
    async with serving() as place:
        peer = await subscribed(place, group=None)
        assert len(await place.broker.groups("t")) == 1

        peer.cut()

        await groups_become(place, [])
        assert not place.kqueue.shared.held


@both_loops
async def test_subscribing_twice_at_once_keeps_the_private_group() -> None:
    async with serving() as place:
        peer = await place.connect()
        peer.send(command(SUB, Topic="t") * 2)
        assert [await peer.line(), await peer.line()] == [b"OK Subscribed to t\n"] * 2

        await say(peer, command(PUB, Topic="t", Payload="p"))

        assert (await delivery(peer))["Payload"] == "p"
        assert len(await place.broker.groups("t")) == 1


@both_loops
async def test_private_groups_that_a_killed_server_left_behind_are_deleted() -> None:
    async with serving() as place:
        left, used, alike = (f"{PRIVATE}{name}" for name in ("0" * 32, "1" * 32, "workers"))
        await place.broker.create_topic("t", partitions=1)
        for name in (alike, "kept", left):
            await place.broker.create_group("t", name)
        async with await place.broker.consumer("t", group=used):
            await subscribed(place, group="default")

            await groups_become(place, sorted(["default", "kept", used, alike]))


@both_loops
async def test_clients_that_subscribe_at_once_all_get_what_is_published(tmp_path: Path) -> None:
    """The first of them looks for abandoned groups while those of the others are being made."""
    async with serving(str(tmp_path / "data")) as place:
        peers = [await place.connect() for _ in range(12)]
        lines = await asyncio.gather(*(say(peer, command(SUB, Topic="t")) for peer in peers))
        assert lines == [b"OK Subscribed to t\n"] * 12

        await say(await place.connect(), command(PUB, Topic="t", Payload="p"))

        async with asyncio.timeout(30):
            got = await asyncio.gather(*(delivery(peer) for peer in peers))
        assert [each["Payload"] for each in got] == ["p"] * 12


@both_loops
async def test_an_id_can_be_traced() -> None:
    async with serving() as place:
        peer = await subscribed(place)
        line = await say(peer, command(PUB, Topic="t", Payload="p"))

        trace = await place.broker.trace(line.decode().split()[-1])

        assert (trace.id, trace.events[0].event) == ("t:0:0", "published")


@both_loops
async def test_subscribers_of_a_group_share_its_messages() -> None:
    async with serving() as place:
        one = await subscribed(place)
        two = await subscribed(place)
        watcher = await subscribed(place, group="watcher")
        sender = await place.connect()

        for number in range(40):
            await say(sender, command(PUB, Topic="t", Payload=str(number)))
            await asyncio.sleep(0)

        seen = [(await delivery(watcher))["Payload"] for _ in range(40)]
        assert sorted(seen, key=int) == [str(number) for number in range(40)]
        group = await place.broker.describe_group("t", "default")
        assert group.in_flight == 40
        assert len(group.consumers) == 2
        one.cut()
        two.cut()


@both_loops
async def test_what_a_vanished_subscriber_had_not_acknowledged_goes_to_another() -> None:
    async with serving() as place:
        peer = await subscribed(place)
        await say(peer, command(PUB, Topic="t", Payload="p"))
        name = (await delivery(peer))["ID"]

        peer.cut()
        other = await subscribed(place)

        assert await delivery(other) == {"ID": name, "Payload": "p"}
        assert await say(other, command(ACK, MessageID=name)) == b"OK ACK\n"
        await until(lambda: not place.kqueue.shared.held)


@both_loops
async def test_a_message_whose_subscribers_vanish_is_a_dead_letter_in_the_end() -> None:
    async with serving() as place:
        await place.broker.create_topic("t", partitions=1)
        await place.broker.create_group("t", "default", max_attempts=2)
        for _ in range(2):
            peer = await subscribed(place)
            if not await place.broker.read("t"):
                await say(peer, command(PUB, Topic="t", Payload="p"))
            await delivery(peer)
            peer.cut()
            await until(lambda: not place.kqueue.shared.held)

        [letter] = await place.broker.dead_letters("t")

        assert letter.error == CONNECTION_LOST.message


@both_loops
async def test_a_server_that_stops_counts_no_attempt_of_what_subscribers_had() -> None:
    async with serving() as place:
        await place.broker.create_topic("t", partitions=1)
        peer = await subscribed(place)
        await say(peer, command(PUB, Topic="t", Payload="p"))
        await delivery(peer)

        await place.listener.drain()

        async with await place.broker.consumer("t") as consumer:
            [message] = await consumer.receive()
            assert message.attempt == 1


@both_loops
async def test_nothing_is_kept_of_a_subscriber_that_is_gone() -> None:
    async with serving() as place:
        peer = await subscribed(place)
        await say(peer, command(PUB, Topic="t", Payload="p"))
        await delivery(peer)
        assert len(place.kqueue.shared.held) == 1

        peer.cut()

        await until(lambda: not place.kqueue.shared.held)


@both_loops
async def test_no_more_is_kept_of_messages_that_nobody_acknowledges_than_one_may_hold() -> None:
    async with serving() as place:
        await place.broker.create_topic("t", durability="memory")
        await place.broker.create_group("t", "default", visibility_timeout="1ms", max_attempts=1)
        await place.broker.publish_batch("t", [b"p"] * 250)
        peer = await subscribed(place)

        for _ in range(250):
            await delivery(peer)

        assert len(place.kqueue.shared.held) == 100


@both_loops
async def test_a_message_that_is_not_acknowledged_in_time_comes_again() -> None:
    async with serving() as place:
        await place.broker.create_topic("t", durability="memory")
        await place.broker.create_group("t", "default", visibility_timeout="20ms", backoff=["0s"])
        peer = await subscribed(place)
        await say(peer, command(PUB, Topic="t", Payload="p"))

        first, second = await delivery(peer), await delivery(peer)

        assert first == second


@both_loops
async def test_a_subscriber_holds_no_more_than_a_hundred_messages() -> None:
    async with serving() as place:
        peer = await subscribed(place)
        await place.broker.publish_batch("t", [b"p"] * 150)

        names = [(await delivery(peer))["ID"] for _ in range(100)]
        assert await say(peer, b"\x04\x00\x00\x00\x00") == b"OK PONG\n"
        assert (await place.broker.describe_group("t", "default")).in_flight == 100
        peer.send(command(ACK, MessageID=names[0]))
        assert await peer.line() == b"OK ACK\n"

        assert (await delivery(peer))["ID"] not in names


@both_loops
async def test_a_payload_that_is_no_text_arrives_with_replacement_characters() -> None:
    async with serving() as place:
        peer = await subscribed(place)

        await place.broker.publish("t", b"a\xffb")

        assert (await delivery(peer))["Payload"] == "a\ufffdb"


@both_loops
async def test_other_errors_are_told_as_they_are_and_the_connection_goes_on() -> None:
    async with serving() as place:
        await place.broker.create_topic("t", durability="memory", message_bytes_max=10)
        await place.broker.create_group("t", "stream", kind="stream")
        peer = await place.connect()

        too_large = await say(peer, command(PUB, Topic="t", Payload="x" * 11))
        wrong_kind = await say(peer, command(SUB, Topic="t", Group="stream"))
        nested = await say(peer, command(PUB, Topic="t", Message="no object"))

        assert too_large.startswith(b"ERR the message has 11 bytes and the limit is 10")
        assert wrong_kind.startswith(b"ERR ")
        assert nested == b"ERR Decoding PUB payload: Message is an object with ID and Payload\n"
        assert await say(peer, b"\x04\x00\x00\x00\x00") == b"OK PONG\n"


@both_loops
async def test_an_ack_that_comes_too_late_is_told_in_kqueues_words() -> None:
    async with serving() as place:
        await place.broker.create_topic("t", durability="memory")
        await place.broker.create_group("t", "default", visibility_timeout="1ms", max_attempts=1)
        peer = await subscribed(place)
        await say(peer, command(PUB, Topic="t", Payload="p"))
        name = (await delivery(peer))["ID"]
        async with asyncio.timeout(5):
            while not (await place.broker.describe_group("t", "default")).dead_lettered:  # noqa: ASYNC110
                await asyncio.sleep(0.002)

        line = await say(peer, command(ACK, MessageID=name))

        assert line == b"ERR Message ID not found or already acknowledged.\n"


@both_loops
async def test_a_subscription_ends_with_its_topic_and_the_connection_goes_on() -> None:
    async with serving() as place:
        peer = await subscribed(place)

        await place.broker.delete_topic("t")

        assert await say(peer, b"\x04\x00\x00\x00\x00") == b"OK PONG\n"
        assert await say(peer, command(PUB, Topic="t", Payload="p")) == (
            b"ERR Topic not found. Try subscribing first.\n"
        )
        assert await say(peer, command(SUB, Topic="t")) == b"OK Subscribed to t\n"
        assert (await say(peer, command(PUB, Topic="t", Payload="again"))).startswith(b"OK Published ")
        assert (await delivery(peer))["Payload"] == "again"


@both_loops
@pytest.mark.slow
async def test_a_subscriber_that_does_not_read_is_not_pushed_to_until_it_reads() -> None:
    async with serving(write_buffer_bytes_max=16 * 1024) as place:
        await place.broker.create_topic("t", durability="memory")
        await place.broker.publish_batch("t", [b"x" * 200_000] * 60)
        peer = await subscribed(place)
        [connection] = place.listener.connections.open
        await until(lambda: not connection.writable)

        assert (await place.broker.describe_group("t", "default")).in_flight < 60
        assert connection.buffered < 16 * 1024 + 11 * 200_100

        for _ in range(60):
            assert len((await delivery(peer))["Payload"]) == 200_000


@both_loops
async def test_subscribing_twice_is_one_subscription() -> None:
    async with serving() as place:
        peer = await subscribed(place)

        assert await say(peer, command(SUB, Topic="t")) == b"OK Subscribed to t\n"

        assert len((await place.broker.describe_group("t", "default")).consumers) == 1


@both_loops
async def test_a_penstock_client_and_a_kqueue_client_share_a_topic() -> None:
    async with serving() as place:
        old = await subscribed(place)
        new = await place.client()

        await new.publish("t", b"from the new")

        assert (await delivery(old))["Payload"] == "from the new"


@both_loops
async def test_draining_closes_a_kqueue_connection_after_its_answers() -> None:
    async with serving() as place:
        peer = await subscribed(place)

        await asyncio.wait_for(place.listener.drain(), 60)

        assert await peer.rest() == b""
