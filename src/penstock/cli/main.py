"""The ``penstock`` command.

    penstock --version        which one this is, and whether it is compiled
    penstock COMMAND ...      one file each in this folder

A command's file has one function, ``register(parser)``: it describes the
arguments and names the function that does the work, by
``parser.set_defaults(run=...)``.  That one takes the parsed arguments and
returns the exit code.  Only the command that is asked for is imported, so
``penstock --version`` stays quick whatever the others need.

Exit codes: 0 done, 1 the broker said no (the error's sentence is on stderr),
2 the command line is wrong, 130 interrupted, 141 the reader of stdout has gone.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from penstock.errors import PenstockError
from penstock.version import version_line

# Name of the command, which is also its module here -> its line in the help.
COMMANDS: Final = {
    "demo": "a short tour: publish, lease, nack, retry, dead letter, delay, priority, replay, trace",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = _parser(given)
    options = parser.parse_args(given)
    if options.command is None:
        parser.print_help()
        return 2
    try:
        return int(options.run(options))
    except PenstockError as error:
        print(f"penstock {options.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, as a shell reports it.
    except BrokenPipeError:
        sys.stdout = None  # The reader has seen enough (`| head`); there is nobody to flush the rest to.
        return 141  # 128 + SIGPIPE


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="penstock", description="A durable log you can work like a queue and query like a table."
    )
    parser.add_argument("--version", action="version", version=version_line())
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, line in COMMANDS.items():
        command = commands.add_parser(name, help=line, description=line)
        if name in given:
            import_module(f"penstock.cli.{name}").register(command)
    return parser
