"""``penstock worker`` as people run it: real processes, a real server, signals.

Everything waits for a line that a process prints, never for time to pass.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest
from tests.stalls import check_logged

import penstock

pytestmark = pytest.mark.slow

PATIENCE_S = 60  # A line that has not come by then does not come.
SERVE = ["serve", "--text", "off", "--status", "off", "--http", "off", "--kafka", "off"]


class Process:
    """A ``penstock`` command, and the lines it has printed."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "penstock", *arguments],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.printed: list[str] = []
        self.all: list[str] = []  # Also what no test has looked at.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.all.append(line)
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def line_with(self, words: str) -> str:
        """The next line that has these words."""
        while True:
            line = self._lines.get(timeout=PATIENCE_S)
            if line is None:
                raise AssertionError(f"it ended before {words!r}:\n" + "\n".join(self.printed))
            self.printed.append(line)
            if words in line:
                return line

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def rest(self) -> list[str]:
        """The lines up to its end."""
        lines = []
        while (line := self._lines.get(timeout=PATIENCE_S)) is not None:
            lines.append(line)
        self.printed += lines
        return lines

    def end(self) -> int:
        """Wait for its end; returns the exit code."""
        code = self._process.wait(PATIENCE_S)
        self.rest()
        return code

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()
        self._reader.join(PATIENCE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts ``penstock`` commands in the test's folder; what is left at the end is killed."""
    running: list[Process] = []

    def begin(*arguments: str) -> Process:
        process = Process(list(arguments), tmp_path)
        running.append(process)
        return process

    yield begin
    for process in running:
        process.__exit__()
        check_logged("".join(process.all))


@pytest.fixture
def server(start: Start, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a server."""
    monkeypatch.setenv("PENSTOCK_LIMITS__RESUME", "300ms")  # So long others wait for what the dead held.
    return address_of(start(*SERVE, "--data", ":memory:", "--native", "127.0.0.1:0"))


def address_of(server: Process) -> str:
    address = server.line_with("native").split()[1]
    server.line_with("ready")
    return address


def write(folder: Path, code: str) -> None:
    (folder / "tasks.py").write_text(f"import asyncio, os, threading\nimport penstock\n{code}")


def test_sigterm_under_load_loses_nothing_and_does_nothing_twice(
    start: Start, server: str, tmp_path: Path
) -> None:
    write(
        tmp_path,
        """
app = penstock.App()

@app.worker("orders", concurrency=8)
async def handle(message):
    await asyncio.sleep(0.002)
    os.write(1, b"did " + message.value + b"\\n")  # A whole line, whoever else prints.

@app.worker("mails", concurrency=4)
def mail(message):
    threading.Event().wait(0.002)
    os.write(1, b"did " + message.value + b"\\n")
""",
    )
    count = 500
    with penstock.connect(server) as broker:
        for topic in ("orders", "mails"):
            broker.create_topic(topic, partitions=3)
            broker.publish_batch(topic, [f"{topic}-{number}".encode() for number in range(count)])

        done: list[str] = []
        for _ in range(3):
            worker = start("worker", "tasks:app", "--server", server)
            for _ in range(100):
                worker.line_with("did ")
            worker.send(signal.SIGTERM)
            assert worker.end() == 0
            done += [line.split()[1] for line in worker.printed if line.startswith("did ")]
        worker = start("worker", "tasks:app", "--server", server)
        for _ in range(2 * count - len(done)):
            worker.line_with("did ")
        worker.send(signal.SIGTERM)
        assert worker.end() == 0
        done += [line.split()[1] for line in worker.printed if line.startswith("did ")]

        assert sorted(done) == sorted(
            f"{topic}-{number}" for topic in ("orders", "mails") for number in range(count)
        )
        for topic in ("orders", "mails"):
            info = broker.describe_group(topic, "default")
            assert (info.acked, info.lag, info.in_flight, info.timed_out) == (count, 0, 0, 0)


def test_a_worker_that_is_killed_loses_nothing(start: Start, server: str, tmp_path: Path) -> None:
    write(
        tmp_path,
        """
app = penstock.App()

@app.worker("orders", concurrency=2)
async def handle(message):
    await asyncio.sleep(0.002)
    os.write(1, b"did " + message.value + b"\\n")
""",
    )
    left = {f"did {number}" for number in range(200)}
    in_hand = 2 + 4 * 2
    with penstock.connect(server) as broker:
        broker.create_topic("orders")
        broker.publish_batch("orders", [str(number).encode() for number in range(200)])
        first = start("worker", "tasks:app", "--server", server)
        for _ in range(50):
            left.discard(first.line_with("did "))
        first.kill()
        left -= set(first.rest())

        second = start("worker", "tasks:app", "--server", server)
        again = 0
        while left:
            line = second.line_with("did ")
            again += line not in left
            left.discard(line)

        assert again <= in_hand
        second.send(signal.SIGTERM)
        assert second.end() == 0


def test_a_changed_source_file_starts_the_worker_again(start: Start, server: str, tmp_path: Path) -> None:
    code = """
app = penstock.App()

@app.worker("orders")
def handle(message):
    print("ONE", message.value.decode(), flush=True)
"""
    write(tmp_path, code)
    worker = start("worker", "tasks:app", "--server", server, "--reload")
    worker.line_with("connected")

    with penstock.connect(server) as broker:
        worker.line_with("was created")
        broker.publish("orders", b"first")
        worker.line_with("ONE first")

        write(tmp_path, "this is no Python\n")
        worker.line_with("tasks.py has changed; starting again")
        worker.line_with("SyntaxError")
        worker.line_with("the worker has ended; it starts again when a file changes")

        write(tmp_path, code.replace("ONE", "TWO"))
        worker.line_with("connected")
        broker.publish("orders", b"second")
        worker.line_with("TWO second")

    worker.send(signal.SIGTERM)
    assert worker.end() == 0


def test_a_second_interrupt_ends_it_at_once(start: Start, server: str, tmp_path: Path) -> None:
    write(
        tmp_path,
        """
app = penstock.App(stop_timeout="1h")

@app.worker("orders")
async def handle(message):
    print("began", flush=True)
    await asyncio.sleep(3600)
""",
    )
    worker = start("worker", "tasks:app", "--server", server)
    worker.line_with("was created")
    with penstock.connect(server) as broker:
        broker.publish("orders", b"x")
        worker.line_with("began")

        worker.send(signal.SIGINT)
        worker.line_with("stopping: running functions have 3600 s to finish")
        worker.send(signal.SIGINT)

        assert worker.end() == 130


def test_a_thread_that_never_returns_does_not_hold_up_the_end(
    start: Start, server: str, tmp_path: Path
) -> None:
    write(
        tmp_path,
        """
app = penstock.App(stop_timeout="100ms")

@app.worker("orders")
def handle(message):
    print("began", message.attempt, flush=True)
    threading.Event().wait()
""",
    )
    with penstock.connect(server) as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"x")
        for _ in range(2):
            worker = start("worker", "tasks:app", "--server", server)
            worker.line_with("began 1")  # Given back, and the attempt was not counted.
            worker.send(signal.SIGTERM)
            assert worker.end() == 0


def test_a_message_that_kills_its_workers_is_a_dead_letter_after_its_attempts(
    start: Start, server: str, tmp_path: Path
) -> None:
    write(
        tmp_path,
        """
app = penstock.App()

@app.worker("orders", max_attempts=3)
def handle(message):
    print("began", message.attempt, flush=True)
    os.kill(os.getpid(), 9)
""",
    )
    with penstock.connect(server) as broker:
        broker.create_topic("orders")
        broker.create_topic("orders.dlq")  # To wait for what comes.
        receipt = broker.publish("orders", b"poison")
        for attempt in (1, 2, 3):
            worker = start("worker", "tasks:app", "--server", server)
            worker.line_with(f"began {attempt}")
            assert worker.end() == -signal.SIGKILL

        with broker.consumer("orders.dlq", group="look") as letters:
            [buried] = letters.receive(wait=PATIENCE_S)

        assert buried.value == b"poison"
        [letter] = broker.dead_letters("orders")
        assert letter.error == "the connection was lost while the message was being processed"
        assert letter.attempts == 3
        events = [event.event for event in broker.trace(receipt.id).events if event.group == "default"]
        assert events == [
            "delivered", "connection lost", "redelivered", "connection lost", "redelivered",
            "connection lost", "dead-lettered",
        ]  # fmt: skip


def test_a_worker_outlives_its_server(start: Start, tmp_path: Path) -> None:
    write(
        tmp_path,
        """
app = penstock.App()

@app.worker("orders")
async def handle(message):
    print("did", message.value.decode(), flush=True)
""",
    )
    serve = [*SERVE, "--data", str(tmp_path / "data")]
    first = start(*serve, "--native", "127.0.0.1:0")
    address = address_of(first)
    worker = start("worker", "tasks:app", "--server", address)
    worker.line_with("was created")
    first.kill()

    second = start(*serve, "--native", address.removeprefix("penstock://"))
    address_of(second)
    with penstock.connect(address) as broker:
        broker.publish("orders", b"after")
        worker.line_with("did after")

    worker.send(signal.SIGTERM)
    assert worker.end() == 0


def test_a_worker_waits_for_a_server_that_is_not_there_yet(start: Start, tmp_path: Path) -> None:
    write(
        tmp_path,
        """
app = penstock.App()

@app.worker("orders")
async def handle(message): ...
""",
    )
    first = start(*SERVE, "--data", ":memory:", "--native", "127.0.0.1:0")
    address = address_of(first)
    first.kill()

    worker = start("worker", "tasks:app", "--server", address)
    worker.line_with(f"cannot reach {address}; trying again")
    start(*SERVE, "--data", ":memory:", "--native", address.removeprefix("penstock://"))
    worker.line_with("connected to")

    worker.send(signal.SIGTERM)
    assert worker.end() == 0
