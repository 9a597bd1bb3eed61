"""Signals at every point of a direct publish at which Python looks for them.

Whatever Ctrl-C has interrupted, the next publishes work, nothing is there twice,
and what another thread has published meanwhile arrives.  A handler that returns
may use the client itself.
"""

import gc
import opcode
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest
from tests.client.served import VirtualServer

import penstock
from penstock.client import blocking_connection, direct, portal, sync
from penstock.client.connections import exchange
from penstock.client.publish import publisher, requests, sender, units
from penstock.client.sync import RemoteBroker
from penstock.errors import Closed
from penstock.model.message import Receipt
from penstock.version import compiled

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # Sockets left to Python.
    pytest.mark.skipif(sys.version_info >= (3, 12), reason="signals are looked for elsewhere"),
    pytest.mark.skipif(compiled(), reason="compiled code looks for signals only where it waits"),
]

FILES = {
    module.__file__
    for module in (direct, blocking_connection, exchange, requests, sender, publisher, portal, sync, units)
}
LOOKS = {opcode.opmap[name] for name in ("CALL", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD")}
PATIENCE_S = 20
POINTS_MAX = 500


class Interrupt:
    """A signal at the n-th such point of what runs within ``with``."""

    def __init__(self, number: int, handler: Callable[[], object]) -> None:
        self.left = number
        self._handler = handler
        self._last: dict[int, int | None] = {}  # The instruction before, by frame.

    def __enter__(self) -> None:
        sys.settrace(self._called)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        self._last[id(frame)] = opcode.opmap["RESUME"]
        self._last[id(frame.f_back)] = None  # When a function of Python's returns, nobody looks.
        if frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            last = self._last.get(id(frame))
            self._last[id(frame)] = frame.f_code.co_code[frame.f_lasti]
            if last in LOOKS:
                self.left -= 1
                if self.left == 0:
                    self._handler()
        return self._step


@pytest.fixture
def server() -> Iterator[VirtualServer]:
    with VirtualServer() as started:
        started.run(started.broker.create_topic("orders"))
        yield started


def ctrl_c() -> None:
    raise KeyboardInterrupt


def interrupted(broker: RemoteBroker, number: int, kind: str) -> bool:
    """Publish with Ctrl-C at that point; False if there is no such point any more."""
    if kind != "opened":
        broker.publish("orders", b"warm")
        assert broker._direct.channel is not None
    if kind == "lost":
        assert broker._direct.channel is not None
        broker._direct.channel._socket.shutdown(2)
    interrupt = Interrupt(number, ctrl_c)
    try:
        with interrupt:
            broker.publish("orders", b"%d" % number)
    except KeyboardInterrupt:
        return True
    return interrupt.left <= 0


@pytest.mark.parametrize("kind", ["opened", "plain", "lost", "others wait"])
def test_after_ctrl_c_at_any_point_everything_goes_on(
    server: VirtualServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "DIRECT_MIN", 1)
    monkeypatch.setattr(direct, "PAUSE_MS", 0)
    ask = blocking_connection.BlockingConnection.ask
    behind: list[Any] = []

    def ask_while_others_come(self: blocking_connection.BlockingConnection, encode: Any) -> bytes:
        """Another thread publishes before the answer is there."""
        body = ask(self, encode)
        posting = threading.Thread(target=lambda: behind.append(broker.publish_nowait("orders", b"behind")))
        posting.start()
        posting.join()
        return body

    number = 0
    while number < POINTS_MAX:
        number += 1
        with penstock.connect(server.url) as broker:
            broker.publish("orders", b"warm")
            if kind == "others wait":
                broker.publish("orders", b"warm")  # So that there is a channel.
                monkeypatch.setattr(blocking_connection.BlockingConnection, "ask", ask_while_others_come)
            more = interrupted(broker, number, kind)
            monkeypatch.setattr(blocking_connection.BlockingConnection, "ask", ask)

            assert all(isinstance(future.result(PATIENCE_S), Receipt) for future in behind)
            behind.clear()
            broker.publish_nowait("orders", b"next").result(PATIENCE_S)
            broker.publish("orders", b"and on")
            assert broker._client.publisher.buffered == 0
        if not more:
            break

    assert 5 < number < POINTS_MAX
    stored = Counter(message.value for message in server.run(server.broker.read("orders", limit=10_000)))
    assert stored[b"next"] == stored[b"and on"] == number
    assert all(stored[b"%d" % each] <= 1 for each in range(number))
    gc.collect()  # A socket whose making was interrupted is left to Python: now, and not in another test.


@pytest.mark.parametrize("kind", ["publish", "after a loss", "publish_nowait", "flush", "close"])
def test_a_handler_that_runs_at_any_point_may_use_the_client(
    server: VirtualServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "DIRECT_MIN", 1)

    def handle() -> None:
        if kind == "publish_nowait":
            broker.publish_nowait("orders", b"by the handler").result(PATIENCE_S)
        elif kind == "flush":
            broker.flush()
        elif kind == "close":
            broker.close()
        else:
            broker.publish("orders", b"by the handler")

    number = 0
    while number < POINTS_MAX:
        number += 1
        with penstock.connect(server.url) as broker:
            broker.publish("orders", b"warm")
            broker.publish("orders", b"warm")
            assert broker._direct.channel is not None
            if kind == "after a loss":
                broker._direct.channel._socket.shutdown(2)
            interrupt = Interrupt(number, handle)
            with interrupt, suppress(*[Closed] if kind == "close" else []):  # It was quicker.
                assert broker.publish("orders", b"%d" % number).duplicate is False
            if kind != "close":
                broker.publish("orders", b"and on")
                assert broker._client.publisher.buffered == 0
        if interrupt.left > 0:
            break

    assert 30 < number < POINTS_MAX
    stored = Counter(message.value for message in server.run(server.broker.read("orders", limit=10_000)))
    assert all(stored[b"%d" % each] == 1 or kind == "close" for each in range(1, number))
    assert max(stored[b"%d" % each] for each in range(1, number)) == 1
    assert stored[b"by the handler"] == (0 if kind in ("flush", "close") else number - 1)
