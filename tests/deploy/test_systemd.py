"""The systemd unit, and what the server tells a service manager."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from tests.server.process import PATIENCE_S

from penstock.frontends.systemd import READY, notify

UNIT: Final = Path(__file__).parents[2] / "deploy" / "systemd" / "penstock.service"
OFF: Final = ["--text", "off", "--status", "off", "--http", "off", "--kafka", "off"]


def manager(name: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.bind(name)
    made.settimeout(PATIENCE_S)
    return made


@pytest.mark.slow
def test_the_server_says_when_it_is_ready_and_when_it_stops(tmp_path: Path) -> None:
    with manager(str(tmp_path / "notify")) as heard:
        command = [
            sys.executable,
            "-m",
            "penstock",
            "serve",
            "--data",
            ":memory:",
            "--native",
            "127.0.0.1:0",
            *OFF,
        ]
        environ = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
        with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as server:
            assert heard.recv(100) == b"READY=1"
            server.terminate()
            assert heard.recv(100) == b"STOPPING=1"
            assert server.wait(PATIENCE_S) == 0


def test_an_abstract_socket_is_found_and_a_manager_that_is_gone_is_no_error(tmp_path: Path) -> None:
    name = f"penstock-test-{os.getpid()}"
    with manager(f"\0{name}") as heard:
        notify(READY, {"NOTIFY_SOCKET": f"@{name}"})
        assert heard.recv(100) == b"READY=1"
    notify(READY, {"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    notify(READY, {})


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_has_nothing_to_say_of_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/penstock/bin/penstock", "/bin/sh"))

    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_only_the_server_is_told_to_stop_and_has_longer_than_it_takes() -> None:
    lines = UNIT.read_text().splitlines()

    assert {"Type=notify", "KillMode=mixed", "TimeoutStopSec=30"} <= set(lines)
