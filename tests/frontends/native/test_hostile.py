"""Bytes and clients that mean no good, or nothing at all: the others are served as before."""

import asyncio
import random
import socket

import pytest
from tests.frontends.native.peer import Peer, Place, both_loops, serving, until

from penstock.errors import FrameTooLarge, Overloaded, ProtocolViolation
from penstock.transport.frames import plain_frame
from penstock.wire import native
from penstock.wire.native_bodies import Hello, decode_error_frame, encode_body, encode_call
from penstock.wire.records import encode_values

HELLO = encode_body(native.HELLO, 1, Hello(versions=[1], client="hostile"))
SEEDS = range(6)


async def still_serves(place: Place) -> None:
    """Somebody else does a day's work."""
    peer = await place.client()
    name = f"proof-{random.Random().getrandbits(64)}"
    await peer.call("create_topic", name=name, options={"durability": "memory"})
    await peer.publish(name, b"a")
    consumer = (await peer.open(name)).consumer
    await peer.ack(consumer, *await peer.receive(consumer))
    await peer.call("delete_topic", name=name)
    await peer.close()


def requests() -> list[bytes]:
    """One valid frame of each kind."""
    batch = bytes(encode_values([b"x" * 20], 0, 0))
    return [
        HELLO,
        native.frame(native.PING, 2),
        encode_body(native.METADATA, 3, "orders"),
        native.frame(native.NEW_PRODUCER, 4),
        native.encode_publish(5, "orders", 7, 2, [(0, batch)]),
        encode_body(native.PUBLISH_MESSAGES, 6, ["orders", 2, [[b"v"]]]),
        encode_body(native.OPEN_CONSUMER, 7, {"topic": "orders", "group": "g"}),
        native.encode_receive(8, 1, 10, 0),
        native.encode_credit(1, 10),
        native.encode_ack(9, 1, [(0, 1, 0, 1)]),
        encode_body(native.NACK, 10, [1, [(0, 1, 0, 1)]]),
        encode_body(native.REJECT, 11, [1, [(0, 1, 0, 1)], "no"]),
        encode_body(native.EXTEND, 12, [1, [(0, 1)], 1000]),
        native.encode_commit(13, 1, [(0, 1)]),
        native.encode_consumer(native.HEARTBEAT, 14, 1),
        encode_body(native.ACK_AND_PUBLISH, 15, [1, [(0, 1, 0, 1)], []]),
        encode_call(16, "read", {"topic": "orders"}),
        native.encode_consumer(native.CLOSE_CONSUMER, 17, 1),
    ]


async def with_topic(place: Place) -> None:
    await place.broker.create_topic("orders", durability="memory")
    await place.broker.publish_batch("orders", [b"m%d" % number for number in range(50)])


async def throw(place: Place, data: bytes) -> None:
    """Send bytes, and wait until the server has closed the connection or looked at all of them."""
    peer = await place.connect()
    peer.send(data)
    peer.writer.write_eof()
    await peer.rest()
    peer.cut()


@both_loops
@pytest.mark.parametrize("seed", SEEDS)
async def test_random_bytes_harm_nobody(seed: int) -> None:
    source = random.Random(seed)
    async with serving() as place:
        for beginning in (b"", HELLO, b"\x01", b"\x10", plain_frame(4, b"")):
            await throw(place, beginning + source.randbytes(source.randrange(1, 3000)))

        await still_serves(place)


@both_loops
@pytest.mark.parametrize("seed", SEEDS)
async def test_changed_frames_harm_nobody(seed: int) -> None:
    source = random.Random(seed)
    async with serving() as place:
        await with_topic(place)
        for _ in range(10):
            stream = bytearray(b"".join([HELLO, *source.sample(requests(), 8)]))
            for _ in range(source.randrange(1, 8)):
                stream[source.randrange(len(HELLO), len(stream))] = source.randrange(256)
            await throw(place, bytes(stream))

        await still_serves(place)


@both_loops
async def test_bodies_of_any_kind_under_any_opcode_harm_nobody() -> None:
    source = random.Random(7)
    bodies = [frame[9:] for frame in requests()]
    async with serving() as place:
        await with_topic(place)
        for opcode in range(0x10, 0x90):
            stream = b"".join(native.frame(opcode, 5, source.choice(bodies)) for _ in range(3))
            await throw(place, HELLO + stream)

        await still_serves(place)


@both_loops
async def test_streams_cut_off_anywhere_harm_nobody() -> None:
    stream = b"".join(requests())
    async with serving() as place:
        await with_topic(place)
        for size in range(1, len(stream), 13):
            await throw(place, stream[:size])

        await still_serves(place)
        assert place.listener.half_frame_bytes == 0


@both_loops
async def test_a_frame_that_is_announced_too_long_is_refused_and_nothing_is_kept() -> None:
    async with serving(frame_bytes_max=1000) as place:
        peer = await place.client()

        peer.send(b"\x11\xff\xff\xff\xff" + b"x" * 500)
        opcode, body = await peer.frame()

        assert (opcode, native.correlation_of(body)) == (native.ERROR, native.UNASKED)
        assert isinstance(decode_error_frame(body), FrameTooLarge)
        assert await peer.rest() == b""
        assert place.listener.half_frame_bytes == 0


@both_loops
async def test_requests_before_a_frame_that_is_too_long_are_answered() -> None:
    async with serving(frame_bytes_max=1000) as place:
        peer = await place.client()

        peer.send(native.frame(native.PING, 5) + b"\x11\xff\xff\xff\xff")

        assert (await peer.frame())[0] == native.OK
        assert (await peer.frame())[0] == native.ERROR


@both_loops
async def test_a_body_without_a_correlation_ends_the_connection() -> None:
    async with serving() as place:
        peer = await place.client()

        peer.send(plain_frame(native.PING, b"ab"))
        opcode, body = await peer.frame()

        assert opcode == native.ERROR
        assert isinstance(decode_error_frame(body), ProtocolViolation)
        assert await peer.rest() == b""


@both_loops
@pytest.mark.parametrize("greeting", [b"PING\r\n", b"\x16\x03\x01\x02\x00", b"\x00", b"\x11\x00\x00\x00\x00"])
async def test_who_speaks_another_protocol_is_told_so_and_closed(greeting: bytes) -> None:
    async with serving() as place:
        peer = await place.connect()

        peer.send(greeting)

        assert await peer.rest() == b"ERR Unknown Command Type: %x\n" % greeting[0]


@both_loops
async def test_one_connection_too_many_is_told_so_and_the_others_stay() -> None:
    async with serving(connections_max=2) as place:
        one, two = await place.client(), await place.client()

        three = await place.connect()
        opcode, body = await three.frame()
        assert opcode == native.ERROR
        assert isinstance(decode_error_frame(body), Overloaded)
        assert await three.rest() == b""

        await one.ask(native.frame(native.PING, 5))
        two.cut()
        await until(lambda: len(place.listener.connections.open) < 3)
        three.cut()
        await until(lambda: len(place.listener.connections.open) == 1)
        await still_serves(place)


@both_loops
async def test_frames_that_never_end_have_one_limit_for_all_connections() -> None:
    async with serving(frame_bytes_max=100_000, publish_bytes_max=150_000) as place:
        half = b"\x11" + (90_000).to_bytes(4, "big") + b"x" * 80_000
        one, two = await place.client(), await place.client()
        one.send(half)
        await until(lambda: place.listener.half_frame_bytes == 80_005)

        two.send(half)

        opcode, body = await two.frame()
        assert opcode == native.ERROR
        assert isinstance(decode_error_frame(body), Overloaded)
        assert place.listener.half_frame_bytes == 80_005
        one.cut()
        await until(lambda: place.listener.half_frame_bytes == 0)
        await still_serves(place)


# Clients that do not read.


async def deaf(place: Place) -> Peer:
    """A client whose own buffer is small, so that what it does not read stays at the server."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", place.port))
    peer = Peer(*await asyncio.open_connection(sock=raw, limit=1024))
    place.adopt(peer)
    await peer.hello()
    return peer


@both_loops
@pytest.mark.slow
async def test_a_client_that_does_not_read_is_not_pushed_to_beyond_its_buffer() -> None:
    async with serving(write_buffer_bytes_max=64 * 1024) as place:
        await place.broker.create_topic("orders", durability="memory")
        for _ in range(200):
            await place.broker.publish_batch("orders", [b"x" * 1000] * 100)
        peer = await deaf(place)
        consumer = (await peer.open("orders", max_in_flight=10_000)).consumer

        for _ in range(100):
            peer.send(native.encode_credit(consumer, 100))
        [connection] = place.listener.connections.open
        await until(lambda: not connection.writable)
        await still_serves(place)
        taken = (await place.broker.describe_group("orders", "g")).in_flight

        # One delivery may lie above the mark, and the kernel holds some; not the ten megabytes of the credit.
        assert connection.buffered < 64 * 1024 + 2 * 110_000
        assert 0 < taken < 10_000

        received = 0
        while received < 10_000:
            opcode, body = await peer.frame()
            assert opcode == native.DELIVERY
            received += sum(batch.end - batch.start for batch in native.decode_delivery(body)[1])
        assert received == 10_000
        await until(lambda: connection.writable)


@both_loops
@pytest.mark.slow
async def test_a_client_that_only_asks_is_not_read_until_it_reads() -> None:
    async with serving(write_buffer_bytes_max=64 * 1024) as place:
        await place.broker.create_topic("orders", durability="memory")
        await place.broker.publish_batch("orders", [b"x" * 10_000] * 10)
        peer = await deaf(place)
        asked = 100

        for number in range(asked):
            peer.send(encode_call(100 + number, "read", {"topic": "orders"}))
        [connection] = place.listener.connections.open
        await until(lambda: not connection.writable)
        await still_serves(place)

        assert connection.buffered < 64 * 1024 + 2 * 110_000
        correlations = [native.correlation_of((await peer.frame())[1]) for _ in range(asked)]
        assert correlations == [100 + number for number in range(asked)]


@both_loops
@pytest.mark.slow
async def test_waiting_receives_of_a_client_that_does_not_read_take_nothing() -> None:
    async with serving(write_buffer_bytes_max=64 * 1024) as place:
        await place.broker.create_topic("orders", durability="memory")
        await place.broker.create_topic("big", durability="memory")
        await place.broker.publish_batch("big", [b"x" * 100_000] * 10)
        peer = await deaf(place)
        consumer = (await peer.open("orders")).consumer
        for number in range(20):
            peer.send(native.encode_receive(100 + number, consumer, 1, 60_000))
        for number in range(10):
            peer.send(encode_call(200 + number, "read", {"topic": "big"}))
        [connection] = place.listener.connections.open
        await until(lambda: not connection.writable)

        await place.broker.publish_batch("orders", [b"m"] * 20)
        await still_serves(place)

        assert (await place.broker.describe_group("orders", "g")).in_flight == 0
        correlations = {native.correlation_of((await peer.frame())[1]) for _ in range(30)}
        assert correlations == {*range(100, 120), *range(200, 210)}


@both_loops
async def test_a_client_that_vanishes_while_it_is_pushed_to_leaves_nothing_behind() -> None:
    async with serving(write_buffer_bytes_max=64 * 1024, resume_ms=1) as place:
        await place.broker.create_topic("orders", durability="memory")
        for _ in range(100):
            await place.broker.publish_batch("orders", [b"x" * 1000] * 100)
        peer = await deaf(place)
        consumer = (await peer.open("orders")).consumer
        peer.send(native.encode_credit(consumer, 10_000))
        [connection] = place.listener.connections.open
        await until(lambda: not connection.writable)

        peer.cut()

        await until(lambda: not place.listener.connections.open and len(place.listener.shared.resumable) == 0)
        assert (await place.broker.describe_group("orders", "g")).in_flight == 0
        assert connection.buffered == 0
        await still_serves(place)


@both_loops
async def test_a_client_that_sends_one_byte_at_a_time_is_served() -> None:
    async with serving() as place:
        peer = await place.connect()
        stream = HELLO + native.frame(native.PING, 9)

        for number in range(len(stream)):
            peer.send(stream[number : number + 1])
            await asyncio.sleep(0)

        assert native.correlation_of((await peer.frame())[1]) == 1
        assert native.correlation_of((await peer.frame())[1]) == 9


@both_loops
@pytest.mark.slow
async def test_a_thousand_idle_connections_and_two_hundred_at_work() -> None:
    async with serving(connections_max=2000) as place:
        await place.broker.create_topic("orders", durability="memory", partitions=4)
        idle = [await place.client() for _ in range(1000)]
        active = [await place.client() for _ in range(200)]

        await asyncio.gather(*(work(peer, number) for number, peer in enumerate(active)))

        assert (await place.broker.describe_topic("orders")).published == 200 * 5
        await idle[0].ask(native.frame(native.PING, 5))
        await idle[-1].ask(native.frame(native.PING, 5))


async def work(peer: Peer, number: int) -> None:
    for _ in range(5):
        await peer.publish("orders", b"m", partition=number % 4)


@both_loops
async def test_nothing_is_done_behind_the_frame_for_which_a_connection_is_closed() -> None:
    async with serving() as place:
        peer = await place.client()

        peer.send(
            plain_frame(native.PING, b"ab")
            + encode_call(5, "create_topic", {"name": "sneaked", "options": {"durability": "memory"}})
        )

        assert (await peer.frame())[0] == native.ERROR
        assert await peer.rest() == b""
        assert await place.broker.topics() == []


@both_loops
async def test_a_client_that_does_not_read_its_last_words_is_cut_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.frontends.framed.LINGER_MS", 2)
    async with serving(write_buffer_bytes_max=64 * 1024) as place:
        await place.broker.create_topic("orders", durability="memory")
        await place.broker.publish_batch("orders", [b"x" * 100_000] * 80)
        peer = await deaf(place)
        peer.send(encode_call(5, "read", {"topic": "orders"}))
        [connection] = place.listener.connections.open
        await until(lambda: not connection.writable)

        connection.end()

        await until(lambda: not place.listener.connections.open)
        assert connection.buffered == 0
