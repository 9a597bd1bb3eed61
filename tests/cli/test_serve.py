"""What the start screen of a server says to type; the server itself is in tests/frontends/serve."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from penstock.cli.server import serve


def test_the_usual_address_need_not_be_typed() -> None:
    [(_, commands), (_, tour)] = serve.first_commands({"native": ("127.0.0.1", 7070), "text": ("::1", 3000)})

    assert [command.partition(" produce ")[2] for command in commands[:1]] == ['orders "two books"']
    assert [command.partition(" consume ")[2] for command in commands[1:]] == ["orders"]
    assert [command.rpartition(" ")[2] for command in tour] == ["demo"]


def test_another_address_is_part_of_the_commands() -> None:
    [(_, commands), _] = serve.first_commands({"native": ("::1", 7071)})

    assert all(command.endswith(" --server penstock://[::1]:7071") for command in commands)


def test_without_the_native_protocol_it_is_netcat() -> None:
    [(_, commands), _] = serve.first_commands({"text": ("127.0.0.1", 3000)})

    assert commands == [r"printf 'PRODUCE orders 0 two books\nCONSUME orders 0\nQUIT\n' | nc 127.0.0.1 3000"]


def test_with_the_status_page_alone_there_is_nothing_to_send() -> None:
    [(title, _)] = serve.first_commands({"status": ("127.0.0.1", 8081)})

    assert "Take a one-minute tour" in title


def test_the_program_is_called_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "bin" / "penstock"
    script.parent.mkdir()
    script.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script), "serve"])

    elsewhere = serve.program_name()
    monkeypatch.setenv("PATH", str(script.parent), prepend=os.pathsep)
    on_the_path = serve.program_name()
    monkeypatch.setattr(sys, "argv", ["/somewhere/penstock/__main__.py", "serve"])
    as_a_module = serve.program_name()

    assert shutil.which("penstock") == str(script)
    assert elsewhere == "bin/penstock"
    assert on_the_path == "penstock"
    assert as_a_module.endswith(" -m penstock")
