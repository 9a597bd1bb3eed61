"""The ``penstock`` command.

    penstock --version        which one this is, and whether it is compiled
    penstock COMMAND ...      a module each in data/, server/ or spark/, named in ``COMMANDS``

A command's file has an ``app`` made by ``commands.new_app``: with one function
it is a command, with several (or with ``group=True``) a group of them.  A
function returns its exit code, or None for 0.  Only the file of the command
that is asked for is imported, and what is heavy it imports where it is used,
so ``penstock --version`` stays quick whatever the others need.

Exit codes: 0 done, 1 the broker said no (the error's sentence is on stderr),
2 the command line is wrong, 130 interrupted, 141 the reader of stdout has gone.
"""

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError
from penstock.version import version_line

if TYPE_CHECKING:
    from penstock.cli.commands import Program

# Name of the command -> the package of its module, which has the same name, and its line in the help.
COMMANDS: Final = {
    "serve": ("server", "Run a broker that other processes reach."),
    "topic": ("data", "Make, list, describe, change and delete topics."),
    "produce": ("data", "Publish a message, or one for each line of a stream."),
    "consume": ("data", "Print messages: read them, or take them as a group."),
    "peek": ("data", "Look at the last messages of a topic; takes nothing."),
    "group": ("data", "How far the readers of a topic are; move and delete them."),
    "trace": ("data", "Everything that happened to a message."),
    "sql": ("spark", "Ask topics in SQL: a query, or a shell."),
    "dlq": ("data", "Dead letters: list by error, show, send back."),
    "worker": ("server", "Run the functions of an app that work on messages."),
    "schedule": ("data", "Messages that wait for their time: list, add, cancel."),
    "pipeline": ("spark", "Run and watch the pipelines on Spark: archive, replay, ..."),
    "lake": ("spark", "What is archived, and the proof that nothing is missing."),
    "key": ("server", "API keys, for programs: make, list, revoke."),
    "user": ("server", "Users, for people: set, list, delete."),
    "ping": ("server", "Is there a broker, which one, and how far away."),
    "bench": ("server", "A quick measurement of a server from here."),
    "check": ("server", "Is everything in a data directory as it was written?"),
    "repair": ("server", "Make a damaged data directory usable again."),
    "config": ("server", "What a server is told, and where each value is from."),
    "demo": ("server", "A short tour, with a broker in this process."),
}


# Refusals whose advice is a call of Python, in the words of the command line.
SENTENCES: Final = {
    "TOPIC_NOT_FOUND": "there is no topic {topic!r}; make it with: penstock topic create {topic}",
    "TOPIC_EXISTS": "topic {topic!r} exists already; change it with: penstock topic alter {topic}",
    "GROUP_NOT_FOUND": "topic {topic!r} has no group {group!r}; see: penstock group list {topic}",
}

_OTHER_NAMES: Final = re.compile(r"('--[\w-]+')( / '--?[\w-]+')+")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given == ["--version"]:
        print(version_line())
        return 0
    # Only now, because typer is half of what --version would take.
    from penstock.cli.commands import Program, WrongCommandLine, reader_gone

    program = Program(COMMANDS)
    try:
        code = program.main(given, prog_name="penstock", standalone_mode=False)
        if sys.stdout is not None:  # A reader that has gone took it away.
            sys.stdout.flush()  # At the exit it would be too late to say that the reader has gone.
    except WrongCommandLine as error:
        return _refuse(program, given, _sentence(error.format_message()), error.exit_code)
    except PenstockError as error:
        return _refuse(program, given, in_our_words(error), 1)
    except BrokenPipeError:
        return reader_gone()
    return code if isinstance(code, int) else 0


def in_our_words(error: PenstockError) -> str:
    """What a refusal says to a person at a command line, with its code."""
    sentence = SENTENCES.get(error.code)
    return str(error) if sentence is None else f"{sentence.format(**error.facts)} [{error.code}]"


def _refuse(program: "Program", given: Sequence[str], sentence: str, code: int) -> int:
    print(f"{program.command_path(given)}: {sentence}", file=sys.stderr)
    return code


def _sentence(message: str) -> str:
    """Typer's message in our voice: one line, no capital, an option by its long name, and what to do."""
    line = _OTHER_NAMES.sub(r"\1", " ".join(message.split()).rstrip("."))
    line = line[:1].lower() + line[1:]
    return line if line.endswith("?") else f"{line}; --help shows how"
