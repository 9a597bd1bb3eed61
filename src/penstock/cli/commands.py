"""Building blocks of the command line: the program, command groups, and how a module declares a command.

    app = new_app()

    @app.command(epilog=example("penstock ping"))
    def ping(server: Server = SERVER) -> None: ...

Help is plain text: typer's boxes take a third of an 80-column terminal and half of the run time.  Tables and
progress bars use rich.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, Final, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from penstock.version import version_line

WrongCommandLine: Final = typer.TyperException  # Its exit_code is 2 for a wrong argument.
SIGPIPE_CODE: Final = 128 + 13

Run = TypeVar("Run", bound=Callable[..., int | None])


class WrongUse(typer.TyperException):
    """Arguments that cannot be combined; typer's own errors are about a single one."""

    exit_code = 2


class CliCommand(TyperCommand):
    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """``TOPIC`` for what is required, as manuals have it, where typer writes ``{TOPIC}``."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class CliApp(typer.Typer):
    """A command's ``app``; see ``new_app``."""

    def command(self, *arguments: Any, **options: Any) -> Callable[[Run], Run]:
        """Register a function; the arguments are typer's."""
        return super().command(*arguments, **{"cls": CliCommand} | options)


class CliGroup(TyperGroup):
    """A group of commands; without a command it prints its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without a command, print the help; the exit code is still that of a usage error."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit(2)
        return super().parse_args(ctx, args)


class Program(CliGroup):
    """``penstock`` itself: a group that imports its commands on demand."""

    def __init__(self, commands: Mapping[str, tuple[str, str]]) -> None:
        self._packages = {name: package for name, (package, _) in commands.items()}
        root = typer.Typer(cls=CliGroup, rich_markup_mode=None)  # Has --help and shell completion.
        root.callback()(_penstock)
        made = get_command(root)
        super().__init__(
            name="penstock", params=made.params, help=made.help, rich_markup_mode=None,
            context_settings={"help_option_names": ["-h", "--help"]},
            commands={name: TyperCommand(name, help=line) for name, (_, line) in commands.items()},
        )  # fmt: skip

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command to run or to complete, and import it."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, None if found is None else self._load(str(name)), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a reader of stdout that has gone (``| head``) is not an error to talk about."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise typer.Exit(reader_gone()) from None

    def command_path(self, given: Sequence[str]) -> str:
        """The words of a command line that name the command, for messages."""
        words = ["penstock", *given[:1]] if given and given[0] in self.commands else ["penstock"]
        if len(words) > 1 and isinstance(self.commands[words[1]], TyperGroup):
            words += [word for word in given[1:2] if not word.startswith("-")]
        return " ".join(words)

    def _load(self, name: str) -> Any:
        command = get_command(import_module(f"penstock.cli.{self._packages[name]}.{name}").app)
        command.name = name
        self.commands[name] = command
        return command


def reader_gone() -> int:
    """The exit code when stdout was closed by its reader; the rest is dropped."""
    sys.stdout = None  # There is no reader to flush the rest to.
    return SIGPIPE_CODE


def _version(asked: bool) -> None:
    if asked:
        print(version_line())
        raise typer.Exit


def _penstock(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """A durable log you can work like a queue and query like a table."""


def new_app(*, group: bool = False) -> CliApp:
    """What a command's file calls ``app``; ``group`` makes it a group even with a single command."""
    app = CliApp(cls=CliGroup, add_completion=False, rich_markup_mode=None)
    if group:
        app.callback()(lambda: None)
    return app


def example(*lines: str) -> str:
    """The examples at the end of a command's help."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)
