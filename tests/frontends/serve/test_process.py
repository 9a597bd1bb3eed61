"""``penstock serve`` as a process: how it starts, why it does not, and how it ends."""

import fcntl
import http.client
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from tests.frontends.serve.process import FREE, PATIENCE_S, Process, command, environment, refused

pytestmark = pytest.mark.slow  # A process takes half a second to start.

OTHERS_OFF = ("--status", "off", "--http", "off", "--kafka", "off")


class Text:
    """A client of the text protocol."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._file = self.socket.makefile("rb")

    def ask(self, line: str) -> str:
        self.socket.sendall(f"{line}\n".encode())
        return self.line()

    def line(self) -> str:
        return self._file.readline().decode().rstrip("\n")

    def close(self) -> None:
        self._file.close()
        self.socket.close()


def stored(port: int, topic: str) -> list[str]:
    """The messages of a topic's first partition."""
    client = Text(port)
    lines = [client.ask(f"CONSUME {topic} 0")]
    while lines[-1].startswith("MSG"):
        lines.append(client.line())
    client.close()
    return [line.split(" ", 3)[3] for line in lines[:-1]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def without_uvloop(directory: Path) -> dict[str, str]:
    """The environment of somebody who has not installed it."""
    (directory / "uvloop.py").write_text("raise ImportError")
    return {"PYTHONPATH": f"{directory}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


@pytest.mark.parametrize(
    ("number", "loop"), [(signal.SIGTERM, "uvloop"), (signal.SIGINT, "uvloop"), (signal.SIGINT, "asyncio")]
)
def test_it_starts_says_where_it_listens_and_ends_with_a_signal(
    tmp_path: Path, number: signal.Signals, loop: str
) -> None:
    variables = without_uvloop(tmp_path) if loop == "asyncio" else {}
    with Process(tmp_path / "a" / "data", *FREE, **variables) as server:
        client = Text(server.port("text"))
        answer = client.ask("PRODUCE orders 0 two books")
        status = http.client.HTTPConnection("127.0.0.1", server.port("status"), timeout=PATIENCE_S)
        status.request("GET", "/metrics")
        metrics = json.loads(status.getresponse().read())
        status.close()
        api = http.client.HTTPConnection("127.0.0.1", server.port("http"), timeout=PATIENCE_S)
        api.request("GET", "/v1/topics")
        topics = json.loads(api.getresponse().read())
        api.close()

        server.signal(number)

        assert server.wait() == 0
        server.heard("stopping")
        server.heard("stopped")
        assert list(server.said) == ["native", "text", "status", "http", "kafka", "data", "durability"]
        assert server.said["data"] == str(tmp_path / "a" / "data")
        assert server.said["durability"] == "fsync"
        assert answer == "OK Published orders:0:0"
        assert metrics["queues"]["orders-0"] == 1
        assert metrics["active_connections"] == 2
        assert topics == {"topics": ["orders"]}
        assert client.line() == ""  # It was closed.
        client.close()


def test_what_was_published_is_there_after_a_stop_and_after_a_kill(tmp_path: Path) -> None:
    with Process(tmp_path) as server:
        client = Text(server.port("text"))
        client.ask("PRODUCE orders 0 one")
        assert server.stop() == 0
        client.close()
    with Process(tmp_path) as server:
        client = Text(server.port("text"))
        client.ask("PRODUCE orders 0 two")
        server.signal(signal.SIGKILL)
        assert server.wait() == -signal.SIGKILL
        client.close()
    with Process(tmp_path) as server:
        assert stored(server.port("text"), "orders") == ["one", "two"]


def test_a_stop_under_load_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    with Process(tmp_path) as server:
        client = Text(server.port("text"))
        client.ask("PRODUCE orders 0 first")
        client.socket.sendall(b"".join(b"PRODUCE orders 0 %d\n" % number for number in range(5000)))
        client.line()
        server.signal(signal.SIGTERM)
        answered = 2
        while client.line().startswith("OK"):
            answered += 1
        assert server.wait() == 0
        client.close()
    with Process(tmp_path) as server:
        found = stored(server.port("text"), "orders")

        assert found[:answered] == ["first", *map(str, range(answered - 1))]
        assert len(found) <= answered + 64  # What was in hand when it was cut, if it was.


def stuck(server: Process) -> socket.socket:
    """A client that asks for much and reads nothing."""
    client = Text(server.port("text"))
    for _ in range(5):
        client.ask("PRODUCE orders 0 " + "x" * 1_000_000)
    client.socket.sendall(b"CONSUME orders 0\n" * 10)
    client.socket.recv(1)
    return client.socket


def test_a_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    with Process(tmp_path, *FREE, PENSTOCK_SERVER__STOP_TIMEOUT="60s") as server:
        client = stuck(server)
        server.signal(signal.SIGINT)
        server.heard("stopping")

        server.signal(signal.SIGINT)

        assert server.wait() == 130
        client.close()


def test_who_does_not_finish_is_cut_at_the_deadline(tmp_path: Path) -> None:
    with Process(tmp_path, *FREE, PENSTOCK_SERVER__STOP_TIMEOUT="100ms") as server:
        client = stuck(server)

        server.signal(signal.SIGTERM)
        server.signal(signal.SIGTERM)  # Impatience changes nothing.

        assert server.wait() == 0
        server.heard("cutting 1 connections")
        client.close()
    with Process(tmp_path) as server:
        assert len(stored(server.port("text"), "orders")) == 5


def test_a_port_that_is_taken_is_named_with_its_setting_and_nothing_is_begun(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"

        code, words = refused(
            "--native", place, "--text", "0", "--status", "0", "--http", "0", "--kafka", "0", cwd=tmp_path
        )

    assert code == 1
    assert words == (
        f"penstock serve: cannot listen on {place}: address already in use; change listen.native "
        "(--native HOST:PORT), or turn it off (--native off) [ADDRESS_UNUSABLE]\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_another_server_has_is_named_with_its_setting(tmp_path: Path) -> None:
    with Process(tmp_path / "data") as server:
        code, words = refused("--data", "data", *FREE, cwd=tmp_path)

        assert code == 1
        assert words.startswith("penstock serve: data directory 'data' is open in another broker")
        assert f"(pid {server.pid})" in words
        assert words.endswith("; the setting is server.data (--data DIR) [DIRECTORY_IN_USE]\n")
        assert server.stop() == 0


def test_a_directory_that_cannot_be_made_is_named_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    code, words = refused("--data", "file/data", *FREE, cwd=tmp_path)

    assert code == 1
    assert words.startswith("penstock serve: data directory ")
    assert words.endswith(
        "/file' cannot be used: a file has that name; "
        "the setting is server.data (--data DIR) [DIRECTORY_UNUSABLE]\n"
    )
    assert words.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_a_directory_where_nothing_can_be_made_is_named_with_its_setting(tmp_path: Path) -> None:
    code, words = refused("--data", "/proc/penstock", *FREE, cwd=tmp_path)

    assert code == 1
    assert words == (
        "penstock serve: data directory '/proc/penstock' cannot be used: No such file or directory; "
        "the setting is server.data (--data DIR) [DIRECTORY_UNUSABLE]\n"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="to root every directory is writable")
def test_a_directory_that_cannot_be_written_is_named_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o555)

    code, words = refused("--data", "data", *FREE, cwd=tmp_path)

    assert code == 1
    assert words.startswith("penstock serve: data directory 'data' cannot be used: ")


def test_all_problems_of_the_configuration_are_told(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text('[topic]\nretentoin = "7d"\n')

    code, words = refused(
        "--config", "penstock.toml", "--kafka", "here", cwd=tmp_path, PENSTOCK_LISTEN__TEXT="x"
    )

    assert code == 1
    assert words.splitlines() == [
        "penstock serve: the configuration is invalid:",
        "  penstock.toml, line 2: there is no setting topic.retentoin; did you mean topic.retention?",
        "  PENSTOCK_LISTEN__TEXT: listen.text cannot be 'x': "
        "write HOST:PORT such as 127.0.0.1:7070 (0.0.0.0 is every interface), or 'off'",
        "  --kafka: listen.kafka cannot be 'here': "
        "write HOST:PORT such as 127.0.0.1:7070 (0.0.0.0 is every interface), or 'off' "
        "[CONFIGURATION_INVALID]",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["penstock.toml"]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, words = refused("--config", "nowhere.toml", cwd=tmp_path)

    assert code == 1
    assert "--config nowhere.toml: No such file or directory" in words


def test_listeners_may_be_off_and_everything_in_memory(tmp_path: Path) -> None:
    with Process(Path(":memory:"), "--native", "off", "--text", "0", *OTHERS_OFF) as server:
        client = Text(server.port("text"))

        assert list(server.said) == ["text", "data", "durability"]
        assert (server.said["data"], server.said["durability"]) == (":memory:", "memory")
        assert client.ask("PRODUCE orders 0 one") == "OK Published orders:0:0"
        client.close()
        assert server.stop() == 0
    assert not Path(":memory:").exists()


def screen(process: "subprocess.Popen[bytes]", terminal: int, last: str) -> str:
    """What a terminal shows, up to a line with these words."""
    shown = b""
    while last.encode() not in shown:
        assert select.select([terminal], [], [], PATIENCE_S)[0]
        shown += os.read(terminal, 65536)
    return shown.decode().replace("\r\n", "\n")


def output(line: str, directory: Path) -> str:
    """What a line prints that somebody types into a shell."""
    done = subprocess.run(
        line, shell=True, cwd=directory, env=environment(), capture_output=True, text=True, check=True,
        timeout=PATIENCE_S,
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize("colour", [True, False])
def test_on_a_terminal_it_shows_a_table_and_commands_that_work(tmp_path: Path, colour: bool) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    variables = {"TERM": "xterm"} if colour else {"TERM": "xterm", "NO_COLOR": "1"}
    native, text = free_port(), free_port()
    process = subprocess.Popen(
        command("--native", str(native), "--text", str(text), *OTHERS_OFF),
        cwd=tmp_path, stdout=theirs, stderr=subprocess.DEVNULL, env=environment(**variables),
    )  # fmt: skip
    try:
        shown = screen(process, ours, "penstock demo")
        typed = [line.strip() for line in shown.splitlines() if " orders" in line and not colour]
        printed = [output(line, tmp_path) for line in typed]
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
        os.close(theirs)
        os.close(ours)

    assert ("\x1b[" in shown) == colour
    if not colour:
        assert printed[0].startswith("orders:")
        assert printed[1:] == ["two books\n"]
        lines = shown.splitlines()
        server = f"--server penstock://127.0.0.1:{native}"
        assert max(map(len, lines[:8])) <= 80
        assert lines[0].endswith("is ready; press Ctrl-C to stop it.")
        assert f"  native      penstock://127.0.0.1:{native}  Penstock and KQueue clients" in lines
        assert "  data        data" in lines
        assert any(line.endswith(f' -m penstock produce orders "two books" {server}') for line in lines)
        assert any(line.endswith(f" -m penstock consume orders {server}") for line in lines)


def test_a_server_with_nothing_to_do_does_nothing(tmp_path: Path) -> None:
    """No periodic wake-ups: what a thousand idle servers on one machine would cost."""
    with Process(tmp_path) as server:
        client = Text(server.port("text"))
        client.ask("SUB orders")
        before = switches(server.pid)

        assert client.ask("PING") == "OK PONG"
        with pytest.raises(TimeoutError):
            client.socket.settimeout(0.5)
            client.socket.recv(1)

        assert switches(server.pid) - before <= 5
        client.close()
        assert server.stop() == 0


def switches(pid: int) -> int:
    """How often the threads of a process have gone to sleep."""
    return sum(
        int(line.split()[1])
        for status in Path(f"/proc/{pid}/task").glob("*/status")
        for line in status.read_text().splitlines()
        if line.startswith("voluntary_ctxt_switches")
    )


def test_what_is_loaded_is_no_work_for_the_garbage_collector() -> None:
    """Looking at it would stop all connections for 20 ms, again and again."""
    program = """
import gc, os, signal
from penstock.config.server import (ListenSettings, ServerConfig, ServerSettings)
from penstock.frontends.serve import run

def ready(addresses, key):
    print(gc.get_freeze_count() > 10 * len(gc.get_objects()))
    os.kill(os.getpid(), signal.SIGTERM)

listen = ListenSettings(native="0", text="off", status="off", http="0", kafka="0")
run(ServerConfig(server=ServerSettings(data=":memory:"), listen=listen), ready)
"""

    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )

    assert done.stdout == "True\n"
