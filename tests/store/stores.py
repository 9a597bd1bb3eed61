"""Stores for tests: servers that a test starts on a free port of loopback."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

START_S = 60
NOBODY = 65534


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def process(
    *command: str,
    port: int,
    directory: Path,
    user: int | None = None,
    end: signal.Signals = signal.SIGINT,  # PostgreSQL ends without waiting for its clients.
) -> Iterator["subprocess.Popen[bytes]"]:
    """A server that listens on the port, and ends with the block; its output is in the directory."""
    with (directory / "output").open("ab") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, user=user, cwd=directory)
    with server:
        try:
            wait_for(port, server)
            yield server
        finally:
            server.send_signal(end)


def wait_for(port: int, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert server.poll() is None, "the server has ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError


@contextmanager
def postgresql(*, standby: bool = False) -> Iterator[str]:
    """The URL of a new PostgreSQL, perhaps with a synchronous standby."""
    with restartable_postgresql(standby=standby) as (url, _):
        yield url


@contextmanager
def restartable_postgresql(*, standby: bool = False) -> Iterator[tuple[str, Callable[[], None]]]:
    """The same, and what crashes its primary and starts it again.

    It refuses to run as root, and another user cannot enter pytest's directories.
    """
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        pytest.skip("no PostgreSQL; on Debian: apt-get install postgresql")
    programs = found[-1].parent
    user = NOBODY if os.geteuid() == 0 else None
    with TemporaryDirectory(prefix="penstock-postgresql-") as name, ExitStack() as servers:
        directory, port = Path(name), free_port()
        if user is not None:
            os.chown(directory, user, user)

        def run(program: str, *options: object) -> None:
            command = [str(programs / program), *map(str, options)]
            subprocess.run(command, check=True, capture_output=True, user=user, cwd=directory)

        def start(data: str, port: int, *options: str) -> "subprocess.Popen[bytes]":
            command = [programs / "postgres", "-D", directory / data, "-p", port, "-h", "127.0.0.1", "-k", ""]
            server = servers.enter_context(
                process(*map(str, command), *options, port=port, user=user, directory=directory)
            )
            _wait_until_ready(programs, port)
            return server

        run("initdb", "-D", directory / "data", "-A", "trust", "-U", "penstock", "--no-sync")
        synchronous = ["-c", "synchronous_standby_names=*"] if standby else []
        primary = start("data", port, *synchronous)
        if standby:
            source = ("-h", "127.0.0.1", "-p", port, "-U", "penstock")
            run("pg_basebackup", *source, "-D", directory / "standby", "-R", "-c", "fast", "--no-sync")
            start("standby", free_port())

        def restart() -> None:
            nonlocal primary
            primary.send_signal(signal.SIGQUIT)  # It ends at once, and recovers from its log.
            primary.wait(START_S)
            primary = start("data", port, *synchronous)

        yield f"postgresql://penstock@127.0.0.1:{port}/postgres", restart


def _wait_until_ready(programs: Path, port: int) -> None:
    ready = [str(programs / "pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-q"]
    deadline = time.monotonic() + START_S
    while subprocess.run(ready, check=False).returncode:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def etcd(directory: Path) -> Iterator[str]:
    """The URL of a new etcd of one member."""
    program = shutil.which("etcd")
    if program is None:
        pytest.skip("no etcd; on Debian: apt-get install etcd-server")
    port, peers = free_port(), free_port()
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
    options = [
        "--data-dir", str(directory / "data"),
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
        "--initial-cluster", f"default={peer}",
    ]  # fmt: skip
    with process(program, *options, port=port, directory=directory):
        yield f"etcd://127.0.0.1:{port}/penstock"
