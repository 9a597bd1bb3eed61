"""The ``penstock`` command.

    penstock --version        which one this is, and whether it is compiled
    penstock COMMAND ...      one file each in this folder, named in ``COMMANDS``

A command's file has an ``app`` made by ``commands.new_app``: with one function
it is a command, with several (or with ``group=True``) a group of them.  A
function returns its exit code, or None for 0.  Only the file of the command
that is asked for is imported, and what is heavy it imports where it is used,
so ``penstock --version`` stays quick whatever the others need.

Exit codes: 0 done, 1 the broker said no (the error's sentence is on stderr),
2 the command line is wrong, 130 interrupted, 141 the reader of stdout has gone.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError
from penstock.version import version_line

if TYPE_CHECKING:
    from penstock.cli.commands import Program

# Name of the command, which is also its module here -> its line in the help.
COMMANDS: Final = {
    "demo": "A short tour of publish, lease, retry, dead letter, delay, priority, replay, trace.",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given == ["--version"]:
        print(version_line())
        return 0
    # Only now, because typer is half of what --version would take.
    from penstock.cli.commands import Program, WrongCommandLine

    program = Program(COMMANDS)
    try:
        code = program.main(given, prog_name="penstock", standalone_mode=False)
    except WrongCommandLine as error:
        return _refuse(program, given, _sentence(error.format_message()), error.exit_code)
    except PenstockError as error:
        return _refuse(program, given, str(error), 1)
    return code if isinstance(code, int) else 0


def _refuse(program: "Program", given: Sequence[str], sentence: str, code: int) -> int:
    print(f"{program.command_path(given)}: {sentence}", file=sys.stderr)
    return code


def _sentence(message: str) -> str:
    """Typer's message in our voice: one line, no capital, and what to do."""
    line = " ".join(message.split()).rstrip(".")
    line = line[:1].lower() + line[1:]
    return line if line.endswith("?") else f"{line}; --help shows how"
