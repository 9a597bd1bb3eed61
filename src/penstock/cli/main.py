"""The ``penstock`` command.

    penstock --version        the version, and whether it is compiled
    penstock COMMAND ...      one module per command in a package here, listed in ``COMMANDS``

The module of a command defines ``app`` with ``commands.new_app``: with one function it is a command, with
several (or with ``group=True``) a group of commands.  A function returns its exit code, or None for 0.  Only
the module of the requested command is imported, and heavy imports are inside functions, so that ``penstock
--version`` stays fast.

Exit codes: 0 success, 1 the broker returned an error (its message is on stderr), 2 invalid command line,
130 interrupted, 141 stdout was closed.
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
    "serve": ("server", "Run a server."),
    "topic": ("data", "Create, list, describe, alter and delete topics."),
    "schema": ("data", "Set, show, check and infer the schema of a topic."),
    "produce": ("data", "Publish a message, or one per line of input."),
    "consume": ("data", "Print messages: read the log, or consume as a group."),
    "peek": ("data", "Print the last messages of a topic."),
    "group": ("data", "Show, create, move and delete consumer groups."),
    "trace": ("data", "Show everything that happened to a message."),
    "sql": ("spark", "Query topics with SQL: one query, or a shell."),
    "dlq": ("data", "List, show and redrive dead letters."),
    "worker": ("server", "Run the functions of an app that process messages."),
    "schedule": ("data", "List, add and cancel scheduled messages."),
    "pipeline": ("spark", "Run and monitor Spark pipelines: archive, replay, ..."),
    "lake": ("spark", "Show archived data, and check that it is complete."),
    "key": ("access", "Create, list and revoke API keys for programs."),
    "user": ("access", "Create, list and delete users."),
    "cluster": ("server", "Operate a cluster, try one, or check a store for one."),
    "ping": ("server", "Check that a server is up; show version and latency."),
    "bench": ("server", "Measure throughput and latency of a server."),
    "check": ("server", "Check a data directory for damage."),
    "repair": ("server", "Repair a damaged data directory."),
    "config": ("server", "Show server settings and their origins."),
    "demo": ("server", "A short tour with an embedded broker."),
}


# Refusals whose advice is a call of Python, in the words of the command line.
SENTENCES: Final = {
    "TOPIC_NOT_FOUND": "there is no topic {topic!r}; create it with: penstock topic create {topic}",
    "TOPIC_EXISTS": "topic {topic!r} already exists; change it with: penstock topic alter {topic}",
    "GROUP_NOT_FOUND": "topic {topic!r} has no group {group!r}; see: penstock group list {topic}",
}

# Go's programs take long options with one dash, which otherwise would be read as -c onfig.
GO_FLAGS: Final = {"-config": "--config"}

_OTHER_NAMES: Final = re.compile(r"('--[\w-]+')( / '--?[\w-]+')+")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    given = [GO_FLAGS.get(each, each) for each in (sys.argv[1:] if arguments is None else arguments)]
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
    """The error message for the command line, with its code."""
    sentence = SENTENCES.get(error.code)
    return str(error) if sentence is None else f"{sentence.format(**error.facts)} [{error.code}]"


def _refuse(program: "Program", given: Sequence[str], sentence: str, code: int) -> int:
    print(f"{program.command_path(given)}: {sentence}", file=sys.stderr)
    return code


def _sentence(message: str) -> str:
    """Typer's message in our style: one line, no capital, options by their long names, and what to do."""
    line = _OTHER_NAMES.sub(r"\1", " ".join(message.split()).rstrip("."))
    line = line[:1].lower() + line[1:]
    return line if line.endswith("?") else f"{line}; see --help"
