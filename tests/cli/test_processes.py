"""Commands as processes of their own: pipes, signals, terminals and exit codes, against a real server."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.cli.conftest import environment

import penstock

pytestmark = pytest.mark.slow

NOBODY = "penstock://127.0.0.1:1"  # A port where nothing listens.


@contextmanager
def running(server: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command at work, with pipes to write to and read from."""
    process = subprocess.Popen(
        ["penstock", *arguments], env=environment(server),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def stdout_of(process: subprocess.Popen[bytes]) -> bytes:
    """The next line that it prints."""
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["ping", "--count", "1"], 0, ""),
        (["topic", "describe", "nothing"], 1, "there is no topic 'nothing'"),
        (["ping", "--server", NOBODY], 1, f"{NOBODY} cannot be reached: connection refused"),
        (["ping", "--server", "http://x"], 2, "'http://x': write it like 'penstock://127.0.0.1:7070'"),
        (["ping", "--count", "0"], 2, "invalid value for '--count': 0 is not in the range"),
    ],
)  # fmt: skip
def test_a_script_can_tell_by_the_exit_code(arguments: list[str], code: int, words: str, server: str) -> None:
    done = subprocess.run(
        ["penstock", *arguments], env=environment(server), capture_output=True, text=True, check=False
    )

    assert done.returncode == code
    assert words in done.stderr
    assert done.stderr.count("\n") == (0 if code == 0 else 1)
    assert (done.stdout == "") is (code != 0)


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["--version"], ("typer", "rich", "asyncio", "msgspec")),
        (["ping", "--server", NOBODY], ("rich", "penstock.broker", "penstock.log", "pydantic")),
    ],
)  # fmt: skip
def test_a_quick_command_loads_nothing_heavy(arguments: list[str], unwanted: tuple[str, ...]) -> None:
    program = (
        "import sys; from penstock.cli.main import main; main(sys.argv[1].split()); "
        "print([name for name in sys.argv[2].split() if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, " ".join(arguments), " ".join(unwanted)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout.splitlines()[-1] == "[]"


def test_following_prints_what_comes_until_it_is_interrupted(server: str) -> None:
    with (
        penstock.connect(server) as broker,
        running(server, "consume", "news", "--follow", "--group", "g") as process,
    ):
        broker.create_topic("news", partitions=1)
        broker.publish("news", b"first")
        first = stdout_of(process)
        broker.publish("news", b"second")
        second = stdout_of(process)
        process.send_signal(signal.SIGINT)
        code = process.wait(60)

        assert (first, second) == (b"first\n", b"second\n")
        assert code == 130
        assert broker.describe_group("news", "g").lag == 0


def test_a_reader_that_has_seen_enough_ends_it(server: str) -> None:
    with penstock.connect(server) as broker:
        broker.create_topic("long", partitions=1)
        broker.publish_batch("long", [b"a line of some length"] * 20_000)

    with running(server, "consume", "long") as process:
        stdout_of(process)
        assert process.stdout is not None
        process.stdout.close()
        code = process.wait(60)
        assert process.stderr is not None
        assert process.stderr.read() == b""

    assert code == 141


@pytest.mark.parametrize("arguments", [["topic", "list"], ["topic", "list", "-o", "json"]])
def test_a_reader_that_was_never_there_is_nothing_to_talk_about(arguments: list[str], server: str) -> None:
    """``penstock topic list | true``: all is printed at once, and nobody reads it."""
    with penstock.connect(server) as broker:
        broker.create_topic(f"topic-{len(broker.topics())}")
    ours, theirs = os.pipe()
    os.close(ours)

    done = subprocess.run(
        ["penstock", *arguments], env=environment(server), stdout=theirs, stderr=subprocess.PIPE, check=False
    )

    os.close(theirs)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_line_is_published_before_the_next_one_is_written(server: str) -> None:
    """As with ``tail -f log | penstock produce logs``."""
    with penstock.connect(server) as broker, running(server, "produce", "logs") as process:
        broker.create_topic("logs", partitions=1)
        assert process.stdin is not None
        with broker.consumer("logs") as consumer:
            for line in (b"one", b"two"):
                process.stdin.write(line + b"\nhalf a ")
                process.stdin.flush()
                [message] = consumer.receive(wait="20s")
                assert message.value.endswith(line)
            process.stdin.close()
            [rest] = consumer.receive(wait="20s")
        assert rest.value == b"half a "
        assert process.wait(60) == 0


def shown_on_a_terminal(server: str, *arguments: str, **variables: str) -> str:
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    known = environment(server) | {"TERM": "xterm", "NO_COLOR": ""} | variables
    with subprocess.Popen(["penstock", *arguments], env=known, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # The other end is closed, which is how a terminal says that all is read.
                break
        process.wait(60)
    os.close(ours)
    return shown.decode()


def test_a_terminal_has_colours_unless_its_owner_wants_none(server: str) -> None:
    with penstock.connect(server) as broker:
        broker.create_topic("coloured")
        broker.create_group("coloured", "group")

    coloured = shown_on_a_terminal(server, "group", "describe", "coloured", "group")
    plain = shown_on_a_terminal(server, "group", "describe", "coloured", "group", NO_COLOR="1")

    assert "\x1b[32midle" in coloured
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines())) <= 80
