"""``penstock serve`` that asks for keys, as a process, and commands that show one."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.frontends.serve.process import PATIENCE_S, Process, environment, refused

pytestmark = pytest.mark.slow  # A process takes half a second to start.

NATIVE = (
    "--native", "127.0.0.1:0", "--text", "off", "--status", "off", "--http", "off", "--kafka", "off",
)  # fmt: skip


def penstock(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "penstock", *arguments], env=environment(**variables), capture_output=True,
        text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip


def test_the_first_key_is_printed_once_and_opens_the_door(tmp_path: Path) -> None:
    asking = {"PENSTOCK_SECURITY__AUTHENTICATION": "true"}
    with Process(tmp_path / "data", *NATIVE, **asking) as server:
        url, key = server.said["native"], server.said["key"]
        without = penstock("topic", "list", PENSTOCK_SERVER=url)
        made = penstock("key", "create", "shop", "--grant", "reader", PENSTOCK_SERVER=url, PENSTOCK_KEY=key)
        allowed = penstock("key", "list", PENSTOCK_SERVER=url, PENSTOCK_KEY=made.stdout.strip())
        assert server.stop() == 0
    with Process(tmp_path / "data", *NATIVE, **asking) as server:
        assert "key" not in server.said
        assert server.stop() == 0

    assert without.returncode == 1
    assert "[UNAUTHENTICATED]" in without.stderr
    assert made.stdout.startswith("pk_")
    assert allowed.returncode == 1
    assert "(shop) is not allowed to administer the broker; it needs the admin role" in allowed.stderr
    assert key not in "".join(path.read_text() for path in (tmp_path / "data").glob("*.*"))


def test_other_machines_are_let_in_only_where_somebody_says_so(tmp_path: Path) -> None:
    everywhere = ("--native", "0.0.0.0:0", *NATIVE[2:])

    code, words = refused("--data", str(tmp_path), *everywhere, cwd=tmp_path)
    with Process(tmp_path / "data", *everywhere, "--insecure") as server:
        server.heard("not encrypted")
        assert server.stop() == 0

    assert code == 1
    assert "listen.native (--native) can be reached from other machines" in words
    assert "--insecure" in words
