"""The command line itself; each command has its own file of tests."""

import argparse
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from penstock.cli.main import COMMANDS, main
from penstock.errors import TopicNotFound
from penstock.version import version_line

AddCommand = Callable[[Callable[[argparse.Namespace], int]], None]


@pytest.fixture
def add_command(monkeypatch: pytest.MonkeyPatch) -> AddCommand:
    """Makes ``penstock sample --size N`` do what the test wants."""

    def add(run: Callable[[argparse.Namespace], int]) -> None:
        def register(parser: argparse.ArgumentParser) -> None:
            parser.add_argument("--size", type=int, default=0)
            parser.set_defaults(run=run)

        module = ModuleType("penstock.cli.sample")
        module.__dict__["register"] = register
        monkeypatch.setitem(sys.modules, "penstock.cli.sample", module)
        monkeypatch.setitem(COMMANDS, "sample", "only in this test")

    return add


def test_version_is_one_line_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(["--version"])

    assert ending.value.code == 0
    assert capsys.readouterr().out == f"{version_line()}\n"


def test_no_command_shows_the_help_and_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([])

    assert code == 2
    assert all(f"    {name}" in capsys.readouterr().out for name in COMMANDS)


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(["fly"])

    assert ending.value.code == 2
    assert "fly" in capsys.readouterr().err


def test_a_command_gets_its_arguments_and_gives_the_exit_code(add_command: AddCommand) -> None:
    add_command(lambda options: 40 + int(options.size))

    assert main(["sample", "--size", "2"]) == 42


def test_a_refusal_of_the_broker_is_one_line_on_stderr(
    add_command: AddCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    error = TopicNotFound(topic="orders")

    def refuse(options: argparse.Namespace) -> int:
        raise error

    add_command(refuse)

    assert main(["sample"]) == 1
    assert capsys.readouterr().err == f"penstock sample: {error}\n"


def test_an_interrupt_ends_as_shells_expect(add_command: AddCommand) -> None:
    def interrupt(options: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    add_command(interrupt)

    assert main(["sample"]) == 130


def test_only_the_command_that_is_asked_for_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a command with heavy imports costs the others nothing."""
    monkeypatch.setitem(COMMANDS, "missing", "its module does not exist")

    assert main([]) == 2
    with pytest.raises(ModuleNotFoundError):
        main(["missing"])
