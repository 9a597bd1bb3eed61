"""The command line itself; each command has its own file of tests."""

import sys
from collections.abc import Callable, Iterator
from inspect import signature
from string import Formatter
from types import ModuleType
from typing import Annotated

import pytest
import typer

from penstock.cli.commands import example, new_app
from penstock.cli.main import COMMANDS, SENTENCES, main
from penstock.errors import PenstockError, QueueFull, TopicNotFound
from penstock.version import version_line


def walk(kind: type[PenstockError]) -> Iterator[type[PenstockError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from walk(child)


AddCommand = Callable[[Callable[[int], int | None]], None]


@pytest.fixture
def add_command(monkeypatch: pytest.MonkeyPatch) -> AddCommand:
    """Makes ``penstock sample --size N`` do what the test wants."""

    def add(run: Callable[[int], int | None]) -> None:
        app = new_app()

        @app.command(epilog=example("penstock sample --size 3"))
        def sample(size: Annotated[int, typer.Option(help="How large.")] = 0) -> int | None:
            """A command of the test."""
            return run(size)

        module = ModuleType("penstock.cli.data.sample")
        module.__dict__["app"] = app
        monkeypatch.setitem(sys.modules, "penstock.cli.data.sample", module)
        monkeypatch.setitem(COMMANDS, "sample", ("data", "only in this test"))

    return add


@pytest.mark.parametrize("arguments", [["--version"], ["--version", "demo"]])
def test_version_is_one_line_on_stdout(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert capsys.readouterr().out == f"{version_line()}\n"


def test_no_command_shows_the_help_and_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([])

    shown = capsys.readouterr().out
    assert code == 2
    assert [name for name in COMMANDS if f"\n  {name} " not in shown] == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fly"], "penstock: no such command 'fly'; see --help"),
        (["demmo"], "penstock: no such command 'demmo'. Did you mean 'demo'?"),
        (["--fast"], "penstock: no such option: --fast; see --help"),
        (
            ["sample", "--size", "x"],
            "penstock sample: invalid value for '--size': 'x' is not a valid int; see --help",
        ),
        (["sample", "more"], "penstock sample: got unexpected extra argument(s) (more); see --help"),
    ],
)
def test_a_wrong_command_line_is_one_sentence_on_stderr(
    arguments: list[str], sentence: str, add_command: AddCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    add_command(lambda size: size)

    code = main(arguments)

    shown = capsys.readouterr()
    assert code == 2
    assert shown.out == ""
    assert shown.err == f"{sentence}\n"


def test_a_command_gets_its_arguments_and_gives_the_exit_code(add_command: AddCommand) -> None:
    add_command(lambda size: 40 + size)

    assert main(["sample", "--size", "2"]) == 42


def test_a_command_that_returns_nothing_is_done(add_command: AddCommand) -> None:
    add_command(lambda size: None)

    assert main(["sample"]) == 0


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_help_of_a_command_shows_its_example_as_it_is_typed(
    flag: str, add_command: AddCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    add_command(lambda size: None)

    assert main(["sample", flag]) == 0
    assert "\n    penstock sample --size 3\n" in capsys.readouterr().out


def test_a_refusal_of_the_broker_is_one_line_on_stderr(
    add_command: AddCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    errors: list[PenstockError] = [TopicNotFound(topic="orders"), QueueFull(what="the topic", limit=3)]

    def refuse(size: int) -> None:
        raise errors[size]

    add_command(refuse)

    assert [main(["sample"]), main(["sample", "--size", "1"])] == [1, 1]
    assert capsys.readouterr().err.splitlines() == [
        "penstock sample: there is no topic 'orders'; create it with: penstock topic create orders "
        "[TOPIC_NOT_FOUND]",
        f"penstock sample: {errors[1]}",
    ]


def test_the_sentences_of_the_command_line_are_for_errors_that_exist() -> None:
    """And use facts that these errors have."""
    kinds = {kind.code: kind for kind in walk(PenstockError)}

    for code, sentence in SENTENCES.items():
        names = set(signature(kinds[code]).parameters)
        assert {name for _, name, _, _ in Formatter().parse(sentence) if name} <= names


def test_an_interrupt_ends_as_shells_expect(add_command: AddCommand) -> None:
    def interrupt(size: int) -> None:
        raise KeyboardInterrupt

    add_command(interrupt)

    assert main(["sample"]) == 130


def test_a_reader_that_has_gone_ends_it_silently(
    add_command: AddCommand, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # The command takes it away; it comes back.

    def write(size: int) -> None:
        raise BrokenPipeError

    add_command(write)

    assert main(["sample"]) == 141
    assert capsys.readouterr().err == ""


def test_only_the_command_that_is_asked_for_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a command with heavy imports costs the others nothing."""
    monkeypatch.setitem(COMMANDS, "missing", ("data", "its module does not exist"))

    assert main([]) == 2
    with pytest.raises(ModuleNotFoundError):
        main(["missing"])
