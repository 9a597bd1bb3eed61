"""The client of programs with threads: hand-over, exit, fork."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest
from tests.client.served import VirtualServer
from tests.server.process import until

import penstock
from penstock.client.direct import DIRECT_MIN
from penstock.errors import (
    Closed,
    InvalidName,
    InvalidValue,
    QueueFull,
    ServerUnreachable,
)
from penstock.model.message import Message


@pytest.fixture
def server() -> Iterator[VirtualServer]:
    with VirtualServer() as started:
        started.run(started.broker.create_topic("orders"))
        yield started


def test_many_threads_share_a_connection(server: VirtualServer) -> None:
    with penstock.connect(server.url) as broker, ThreadPoolExecutor(8) as threads:
        receipts = list(threads.map(lambda number: broker.publish("orders", b"%d" % number), range(200)))

        assert sorted(receipt.offset or 0 for receipt in receipts) == list(range(200))
        for receipt, message in zip(
            sorted(receipts, key=lambda each: each.offset or 0), broker.read("orders", limit=200), strict=True
        ):
            assert receipt.id == message.id


def test_what_is_published_without_waiting_keeps_its_order(server: VirtualServer) -> None:
    with penstock.connect(server.url) as broker:
        futures = [broker.publish_nowait("orders", b"%d" % number) for number in range(500)]
        broker.flush()

        assert all(future.done() for future in futures)
        assert [future.result().offset for future in futures] == list(range(500))
        assert [message.value for message in broker.read("orders", limit=500)] == [
            b"%d" % number for number in range(500)
        ]


def test_a_future_has_the_error(server: VirtualServer) -> None:
    with penstock.connect(server.url) as broker:
        missing = broker.publish_nowait("a/b", b"x")
        wrong = broker.publish_nowait("orders", "text")  # type: ignore[arg-type]
        broker.flush()

        assert isinstance(missing.exception(), InvalidName)
        assert isinstance(wrong.exception(), InvalidValue)
        with pytest.raises(InvalidValue, match="acks"):
            broker.publish_nowait("orders", b"x", acks="some")  # type: ignore[arg-type]


def test_a_full_buffer_refuses_at_once(server: VirtualServer) -> None:
    with penstock.connect(server.url) as broker:
        broker._client.publisher.buffer_bytes_max = 3000
        going = threading.Event()
        broker._portal.post(going.wait)  # type: ignore[arg-type]  # The loop is busy elsewhere.
        broker.publish_nowait("orders", b"x" * 2000)
        with pytest.raises(QueueFull):
            broker.publish_nowait("orders", b"x" * 2000)
        going.set()
        broker.flush()

        assert broker.publish("orders", b"x" * 2000).offset == 1  # There is room again.


@pytest.mark.parametrize(("acks", "offset"), [("durable", 0), ("written", 0), ("none", None)])
def test_a_publish_says_how_far_it_must_be(server: VirtualServer, acks: str, offset: int | None) -> None:
    with penstock.connect(server.url) as broker:
        receipt = broker.publish("orders", b"x", acks=acks)  # type: ignore[arg-type]
        [other] = broker.publish_batch("orders", [b"y"], acks=acks)  # type: ignore[arg-type]

        assert receipt.offset == offset
        assert other.partition == 0
        assert len(broker.read("orders")) == 2


def test_a_large_batch_goes_in_pieces_and_stays_in_order(server: VirtualServer) -> None:
    with penstock.connect(server.url) as broker:
        values = [b"%05d" % number + b"x" * 300_000 for number in range(12)]

        receipts = broker.publish_batch("orders", [Message(value) for value in values])

        assert [receipt.offset for receipt in receipts] == list(range(12))
        assert [message.value[:5] for message in broker.read("orders")] == [value[:5] for value in values]


def test_messages_of_one_call_find_their_partitions_and_lanes(server: VirtualServer) -> None:
    with penstock.connect(server.url) as broker:
        broker.alter_topic("orders", partitions=3)
        messages = [
            Message(b"%d" % number, partition=number % 3, priority="high" if number % 2 else 0)
            for number in range(12)
        ]

        receipts = broker.publish_batch("orders", messages)

        for number, receipt in enumerate(receipts):
            [stored] = broker.read("orders", partition=receipt.partition, offset=receipt.offset, limit=1)
            assert stored.value == b"%d" % number
            assert (stored.partition, stored.priority) == (number % 3, "high" if number % 2 else "normal")


@pytest.mark.parametrize("key", ["k1", "k3"])
def test_what_waits_while_a_topic_grows_goes_where_its_key_goes(server: VirtualServer, key: str) -> None:
    with penstock.connect(server.url) as broker:
        broker.publish("orders", b"before")
        server.run(server.broker.alter_topic("orders", partitions=8))
        with server.deaf():
            futures = [broker.publish_nowait("orders", b"x", key=key) for _ in range(3)]
            sender = broker._client.publisher.sender("orders")
            while sender is None or not sender._queue:  # Until the first is out, and the others are in line.
                pass
        last = broker.publish("orders", b"x", key=key)

        assert {future.result().partition for future in futures} == {last.partition}


# Ends.


def test_close_answers_what_was_published_and_gives_back_what_is_held(server: VirtualServer) -> None:
    broker = penstock.connect(server.url)
    broker.publish("orders", b"a")
    consumer = broker.consumer("orders")
    consumer.receive()
    futures = [broker.publish_nowait("orders", b"b") for _ in range(100)]

    broker.close()
    broker.close()
    consumer.close()

    assert [future.result().offset for future in futures] == list(range(1, 101))
    with pytest.raises(Closed):
        broker.topics()
    with pytest.raises(Closed):
        broker.publish_nowait("orders", b"c")
    with penstock.connect(server.url) as other:
        assert [(m.value, m.attempt) for m in other.consumer("orders").receive()] == [(b"a", 1)]


def test_whoever_waits_when_the_broker_is_closed_is_told(server: VirtualServer) -> None:
    broker = penstock.connect(server.url)
    consumer = broker.consumer("orders")
    with ThreadPoolExecutor(2) as threads:
        loop = threads.submit(lambda: list(consumer))
        receive = threads.submit(consumer.receive, 1, "1h")
        while len(server.broker._virtual._sleepers) < 2:  # Until both wait at the server.
            pass
        broker.close()

        assert loop.result() == []
        with pytest.raises(Closed):
            receive.result()


def test_a_client_that_cannot_connect_leaves_no_thread(server: VirtualServer) -> None:
    url = server.url
    server.close()
    before = threading.active_count()

    with pytest.raises(ServerUnreachable):
        penstock.connect(url)

    assert threading.active_count() == before


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_wait_and_calls_it_off(server: VirtualServer) -> None:
    with penstock.connect(server.url) as broker:
        consumer = broker.consumer("orders")

        def interrupt() -> None:
            while not server.broker._virtual._sleepers:
                pass
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            consumer.receive(wait="1h")
        broker.topics()  # After which the receive is called off.

        assert not server.broker._virtual._sleepers
        broker.publish("orders", b"x")
        assert [message.value for message in consumer.receive()] == [b"x"]


def test_an_interrupt_while_the_loop_is_woken_does_not_leave_it_asleep(
    server: VirtualServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its debug mode asyncio runs Python there."""
    monkeypatch.setitem(sys.modules, "uvloop", None)  # A loop of which a part can be replaced.

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with penstock.connect(server.url) as broker:
        with monkeypatch.context() as patch:
            patch.setattr(broker._portal._loop, "call_soon_threadsafe", interrupt)
            with pytest.raises(KeyboardInterrupt):
                broker.publish("orders", b"interrupted")

        assert broker.publish_nowait("orders", b"next").result(60).offset is not None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Newer Pythons say so of threads.
def test_after_a_fork_the_parent_goes_on_and_the_child_connects_anew(server: VirtualServer) -> None:
    with penstock.connect(server.url) as broker:
        for _ in range(DIRECT_MIN + 1):  # So that there is a channel, too.
            broker.publish("orders", b"parent")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with pytest.raises(Closed, match="parent"):
                    broker.publish("orders", b"x")
                broker.close()
                with penstock.connect(server.url) as own:
                    own.publish("orders", b"child")
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

        broker.publish("orders", b"parent again")
        assert broker._direct.channel is not None
        stored = [message.value for message in broker.read("orders")]
        assert stored[DIRECT_MIN:] == [b"parent", b"child", b"parent again"]


@pytest.mark.slow
def test_a_program_that_ends_without_closing_loses_nothing(server: VirtualServer) -> None:
    program = f"""
import penstock
broker = penstock.connect({server.url!r})
consumer = broker.consumer("orders")
for number in range(1000):
    broker.publish_nowait("orders", b"x" * 100)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert server.run(server.broker.describe_topic("orders")).messages == 1000


@pytest.mark.slow
def test_a_client_program_loads_neither_the_broker_nor_anything_heavy() -> None:
    program = """
import sys
import penstock
penstock.connect
penstock.aio.connect("penstock://127.0.0.1:7070")
print(*sorted(name for name in sys.modules if name.partition(".")[0] in
    ("penstock", "typer", "rich", "click", "uvloop", "cronsim", "pydantic", "unittest")))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    loaded = done.stdout.split()

    ours = {name.split(".")[1] for name in loaded if name.startswith("penstock.")}
    assert (
        ours & {"broker", "log", "delivery", "groups", "schedule", "frontends", "testing", "cli", "workers"}
        == set()
    )
    assert [name for name in loaded if not name.startswith("penstock")] == []
    assert "client" in ours


def test_without_uvloop_the_loop_is_pythons_own(
    server: VirtualServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)

    with penstock.connect(server.url) as broker:
        assert broker.publish("orders", b"x").offset == 0
        assert type(broker._portal._loop).__module__.startswith("asyncio")


@pytest.mark.parametrize("acks", ["written", "none"])
def test_a_publish_that_does_not_wait_for_the_disk_is_delivered_without_another_one(
    tmp_path: Path, acks: Literal["written", "none"]
) -> None:
    with VirtualServer(str(tmp_path)) as server, penstock.connect(server.url) as broker:
        broker.create_topic("alone", partitions=1)
        broker.publish("alone", b"a", acks=acks)

        until(lambda: [message.value for message in broker.read("alone")] == [b"a"])
