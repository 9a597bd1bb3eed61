"""Bytes that no decent client sends, to every listener of a live server.

Whatever is sent, and however it ends: another client gets its answers at once,
the log has no bug in it, and memory stays where it was.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.server.bystander import AT_ONCE_S, Bystander, read_all
from tests.server.conversations import (
    TOPIC,
    announced,
    kqueue_pieces,
    native_pieces,
    status_pieces,
    text_pieces,
)
from tests.server.peer import HELLO, Peer, reset
from tests.server.process import Server

from penstock.frontends.kqueue import opcodes as kqueue_opcodes
from penstock.wire import native
from penstock.wire.records import encode_values

MEMORY_BYTES = 8 << 20  # What some hundred such connections may leave behind: their messages, counted.
HEADER = 5

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Door:
    """A listener, and what is said there."""

    listener: str
    pieces: list[bytes]
    frames: bool  # Pieces have a head with the length of the rest.


class World:
    """A server, a bystander, and the doors."""

    def __init__(self, server: Server, bystander: Bystander) -> None:
        self.server = server
        self.bystander = bystander
        with Peer(server) as peer:
            peer.call("create_topic", name=TOPIC, options={"partitions": 2})
            version = peer.version(TOPIC)
        self.doors = [
            Door("native", native_pieces(version), frames=True),
            Door("native", kqueue_pieces(), frames=True),
            Door("text", text_pieces(), frames=False),
            Door("status", status_pieces(), frames=False),
        ]

    def say(self, listener: str, data: bytes, end: "End") -> None:
        """One connection, from beginning to end."""
        made = self.server.connect(listener)
        made.settimeout(AT_ONCE_S)
        with suppress(ConnectionError):
            made.sendall(data)
        end(made)

    def check(self) -> None:
        """Nobody else has noticed."""
        self.bystander.check()
        self.server.check_log()


@pytest.fixture(scope="module")
def world(server: Server) -> Iterator[World]:
    with Bystander(server) as bystander:
        yield World(server, bystander)


# How connections end.

End = Callable[[socket.socket], None]


def leave(made: socket.socket) -> None:
    """Say goodbye, and do not listen."""
    made.close()


def half_close(made: socket.socket) -> None:
    """Send no more, and read everything."""
    with made, suppress(ConnectionError):
        made.shutdown(socket.SHUT_WR)
        read_all(made)


ENDS: list[End] = [half_close, half_close, leave, reset]


# How pieces are spoiled.

Spoil = Callable[[bytes], bytes]
NUMBERS = st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, 0x7FFF_FFFF, 0xFFFF_FFFF])


def spoils() -> st.SearchStrategy[Spoil]:
    """Functions that change some bytes; positions are shares of the length, so that they fit any."""
    share = st.floats(0, 1, exclude_max=True)

    def change(at: float, bits: int) -> Spoil:
        def spoil(data: bytes) -> bytes:
            place = int(at * len(data))
            return data[:place] + bytes([data[place] ^ bits]) + data[place + 1 :] if data else data

        return spoil

    def replace(at: float, size: int, new: bytes) -> Spoil:
        def spoil(data: bytes) -> bytes:
            place = int(at * len(data))
            return data[:place] + new + data[place + size :]

        return spoil

    def cut(at: float) -> Spoil:
        return lambda data: data[: int(at * len(data))]

    big = st.builds(lambda number: number.to_bytes(4, "big"), NUMBERS)
    return st.one_of(
        st.builds(change, share, st.integers(1, 255)),
        st.builds(replace, share, st.integers(0, 8), st.binary(max_size=20)),
        st.builds(replace, share, st.just(4), big),
        st.builds(cut, share),
    )


def nothing(data: bytes) -> bytes:
    return data


def reframed(spoil: Spoil) -> Spoil:
    """Spoil the body of a frame and give it the length that it has then, so that it gets further."""

    def spoiled(piece: bytes) -> bytes:
        body = spoil(piece[HEADER:])
        return piece[:1] + len(body).to_bytes(4, "big") + body

    return spoiled


@st.composite
def speech(draw: st.DrawFn, doors: list[Door]) -> tuple[str, bytes]:
    """Some pieces of a conversation, some of them spoiled."""
    door = draw(st.sampled_from([doors[0], *doors]))
    said = draw(st.lists(st.sampled_from(range(len(door.pieces))), min_size=1, max_size=12))
    if draw(st.integers(0, 7)):  # Mostly it begins as it should, or nothing after it would be looked at.
        said = [0, *(number for number in said if number)]
    elif not draw(st.integers(0, 3)):
        return door.listener, draw(st.binary(max_size=200))
    data = b""
    for number in said:
        spoil = draw(st.one_of(st.just(nothing), spoils()))
        if door.frames and number and draw(st.integers(0, 4)):
            spoil = reframed(spoil)
        elif number == 0 and draw(st.integers(0, 7)):
            spoil = nothing
        data += spoil(door.pieces[number])
    return door.listener, data


FUZZ = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def test_decent_conversations_are_answered(world: World) -> None:
    """Or else the spoiled ones would prove nothing."""
    with Peer(world.server, hello=False) as peer:
        for piece in world.doors[0].pieces:
            peer.send(piece)
        with suppress(EOFError):
            peer.ping()
    world.check()


@FUZZ
@given(data=st.data())
def test_spoiled_conversations_harm_nobody(world: World, data: st.DataObject) -> None:
    listener, said = data.draw(speech(world.doors))
    end = data.draw(st.sampled_from(ENDS))

    world.say(listener, said, end)

    world.check()


# One kind of indecency at a time.


def test_conversations_that_break_off_anywhere_harm_nobody(world: World) -> None:
    for door in world.doors:
        said = b"".join(door.pieces)
        for end in range(1, len(said), max(len(said) // 30, 1)):
            world.say(door.listener, said[:end], reset if end % 2 else half_close)

    world.check()


@pytest.mark.parametrize("length", [0xFFFF_FFFF, 0x8000_0000, (16 << 20) + 1])
@pytest.mark.parametrize("opcode", [native.HELLO, kqueue_opcodes.PUB])
def test_a_length_beyond_the_limit_is_refused_before_anything_is_kept(
    world: World, opcode: int, length: int
) -> None:
    before = world.server.rss_bytes()
    connections = [world.server.connect("native") for _ in range(50)]

    for made in connections:
        made.sendall(announced(opcode, length))
    answers = [read_all(made) for made in connections]
    for made in connections:
        made.close()

    assert {b"FRAME_TOO_LARGE" in answer for answer in answers} == {True}
    assert world.server.rss_bytes() - before < 8 << 20
    world.check()


def test_an_answer_that_comes_when_the_last_words_are_said_is_not_sent(world: World) -> None:
    """The publish is waiting for the disk when the connection is refused for the frame behind it."""
    with Peer(world.server) as peer:
        batch = bytes(encode_values([b"x"], 0, 0))
        request = native.encode_publish(5, TOPIC, peer.version(TOPIC), native.ACKS_DURABLE, [(0, batch)])
        peer.send(request * 20 + announced(native.PUBLISH, 0xFFFF_FFFF))

        frames = []
        with suppress(EOFError):
            while True:
                frames.append(peer.frame())

    assert frames[-1][0] == native.ERROR
    world.check()


def test_slow_clients_get_their_answers_and_keep_nobody_waiting(world: World) -> None:
    """Byte by byte, on all listeners at a time."""
    ends = {"native": HELLO + native.frame(native.PING, 0xABCDEF), "text": b"PING\nQUIT\n"}
    ends["status"] = b"".join(status_pieces())
    wanted = {"native": (0xABCDEF).to_bytes(4, "big"), "text": b"PONG", "status": b"200 OK"}
    slow = [(listener, world.server.connect(listener)) for listener in ends for _ in range(20)]

    for at in range(max(map(len, ends.values()))):
        for listener, made in slow:
            made.sendall(ends[listener][at : at + 1])
        if at % 10 == 0:
            world.bystander.check()

    for listener, made in slow:
        if listener == "native":
            made.shutdown(socket.SHUT_WR)
        with made:
            assert wanted[listener] in read_all(made)
    world.check()


@pytest.mark.parametrize("correlation", [0, 1, 0x7FFF_FFFF, 0xFFFF_FFFF])
def test_answers_carry_whatever_correlation_was_sent_also_twice(world: World, correlation: int) -> None:
    with Peer(world.server) as peer:
        peer.send(native.frame(native.PING, correlation) * 3 + native.frame(native.PING, 7))

        answers = [peer.frame() for _ in range(4)]

    assert answers == [(native.OK, correlation.to_bytes(4, "big"))] * 3 + [(native.OK, b"\0\0\0\7")]
    world.check()


@pytest.mark.parametrize("listener", ["native", "text", "status"])
def test_connections_that_say_nothing_or_half_of_it_are_waited_for(world: World, listener: str) -> None:
    said = {"native": HELLO[:-1], "text": b"PIN", "status": b"GET /met"}[listener]
    silent = [world.server.connect(listener) for _ in range(50)]
    half = [world.server.connect(listener) for _ in range(50)]

    for made in half:
        made.sendall(said)
    world.check()

    for made in silent + half:
        made.shutdown(socket.SHUT_WR)
    for made in silent + half:
        read_all(made)
        made.close()
    world.check()


def test_what_all_of_this_costs_is_bounded(world: World) -> None:
    """Again and again the same indecency, and memory does not grow with it."""
    said = [
        (door.listener, b"".join(piece for piece in door.pieces if b"fuzz-made" not in piece)[:-1])
        for door in world.doors
    ]

    def misbehave() -> None:
        for _ in range(40):
            for listener, data in said:
                world.say(listener, data, half_close)
        world.check()

    misbehave()
    before = world.server.rss_bytes()
    misbehave()
    misbehave()

    assert world.server.rss_bytes() - before < MEMORY_BYTES


def test_who_sends_no_more_still_gets_the_answers_to_what_was_sent(world: World) -> None:
    """As `printf ... | nc` does."""
    version = native_version(world)
    batch = bytes(encode_values([b"x"], 0, 0))
    said = {
        "native": HELLO + native.encode_publish(0xABCDEF, TOPIC, version, native.ACKS_DURABLE, [(0, batch)]),
        "text": b"PRODUCE fuzz-half 0 one\nPING\n",
        "status": b"".join(status_pieces()),
    }
    wanted = {"native": (0xABCDEF).to_bytes(4, "big"), "text": b"PONG", "status": b"200 OK"}

    for listener, data in said.items():
        with world.server.connect(listener) as made:
            made.sendall(data)
            made.shutdown(socket.SHUT_WR)
            assert wanted[listener] in read_all(made)
    world.check()


def native_version(world: World) -> int:
    with Peer(world.server) as peer:
        return peer.version(TOPIC)
