"""What every command has: help with an example, within 80 columns; a server to name; JSON for programs."""

from collections.abc import Iterator
from typing import Any

import pytest
from typer.core import TyperGroup

from penstock.cli.commands import Program
from penstock.cli.main import COMMANDS, main
from penstock.config.server import ListenSettings

NOT_CLIENTS = {
    "cluster convert",
    "cluster dev",
    "cluster leave",
    "cluster probe",
    "serve",
    "config show",
    "worker",
    "demo",
    "check",
    "repair",
}  # They start a broker, or talk to none.
PRINT_NO_DATA = {
    "topic create", "topic alter", "topic delete", "group create", "group seek", "group delete",
    "schedule add", "pipeline run", "pipeline stop", "lake snapshot", "key create", "key revoke", "user set",
    "user delete", "cluster drain", "cluster remove", "cluster move", "cluster balance", "schema set",
    "schema check", "schema diff", "schema infer",
}  # fmt: skip


def every_command() -> Iterator[tuple[str, Any]]:
    """The words that name a command, and the command."""
    program = Program(COMMANDS)
    for name in COMMANDS:
        _, command, _ = program.resolve_command(None, [name])
        if isinstance(command, TyperGroup):
            for part, inner in command.commands.items():
                yield f"{name} {part}", inner
        else:
            yield name, command


EVERY = dict(every_command())


def options(name: str) -> set[str]:
    """All names of a command's options."""
    return {
        option for parameter in EVERY[name].params for option in parameter.opts + parameter.secondary_opts
    }


@pytest.mark.parametrize("name", EVERY)
def test_help_says_what_it_does_and_shows_an_example(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    code = main([*name.split(), "--help"])

    shown = capsys.readouterr().out
    explanation, _, example = shown.partition("Example:")
    assert code == 0
    assert shown.startswith(f"Usage: penstock {name} ")
    assert len(explanation.splitlines()[2]) > 10
    assert f"    penstock {name}" in example
    assert [line for line in explanation.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("listener", ListenSettings.__struct_fields__)
def test_serve_says_where_each_listener_is(
    listener: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    main(["serve", "--help"])

    [line] = [line for line in capsys.readouterr().out.splitlines() if f"--{listener} HOST:PORT|off" in line]
    assert line.endswith(f"[{getattr(ListenSettings(), listener)}]")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_shows_all_of_each_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])

    assert COMMANDS[name][1] in capsys.readouterr().out


@pytest.mark.parametrize("name", sorted({name.split()[0] for name in EVERY if " " in name}))
def test_a_group_lists_its_commands_without_cutting_a_line(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert main([name]) == 2

    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


@pytest.mark.parametrize("name", sorted(EVERY.keys() - NOT_CLIENTS))
def test_every_client_command_can_be_told_which_server(name: str) -> None:
    assert "--server" in options(name)


@pytest.mark.parametrize("name", sorted(EVERY.keys() - NOT_CLIENTS - PRINT_NO_DATA))
def test_every_command_that_prints_data_prints_json(name: str) -> None:
    [output] = [parameter for parameter in EVERY[name].params if "-o" in parameter.opts]

    assert "json" in output.type.choices


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("produce", "key header priority delay deliver-at ttl dedup-id partition file"),
        (
            "consume",
            "group partition follow from-beginning from-offset from-time to-time limit wait no-ack format",
        ),
        ("dlq redrive", "dry-run limit rate error group"),
        ("topic create", "partitions retention retention-bytes durability ttl"),
    ],
)
def test_the_options_that_people_know(name: str, expected: str) -> None:
    assert {f"--{option}" for option in expected.split()} <= options(name)
