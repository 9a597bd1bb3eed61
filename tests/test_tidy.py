"""House rules a linter does not know.  Each message says what to do instead.

The rules are checked on the syntax tree, one file at a time, and each rule has
a test at the end that breaks it once: a rule that cannot fail is no rule.
"""

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "penstock"
LAYERS_WITHOUT_IO = ("delivery", "groups", "wire")

FUNCTION_LINES_MAX = 70  # One screen.
FILE_LINES_MAX = 800  # One sitting.  A longer file is only a warning: not every split helps the reader.


@dataclass(frozen=True, slots=True)
class Rule:
    """A call that is not made, what is used instead, and the only files (of src/penstock) that may."""

    instead: str
    allowed: frozenset[str] = frozenset()


CLOCK = Rule("the Clock that was passed in", frozenset({"clock.py"}))
FILES = Rule(
    "log/files.py, so that tests can fail it; in the lake, storage.py; for a cluster, store/",
    frozenset({"log/files.py", "spark/lake/storage.py", "store/directory.py"}),
)
RANDOM = Rule("the seeded random.Random that was passed in")
OWNER = Rule("a TaskGroup that someone awaits")
WAIT = Rule("a condition with a timeout from the Clock, which a test can end at once")

BANNED_CALLS = {
    **dict.fromkeys(
        [
            "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.clock_gettime",
            "time.clock_gettime_ns", "time.perf_counter", "time.perf_counter_ns", "time.localtime",
            "datetime.now", "datetime.utcnow", "datetime.today", "date.today",
            "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.date.today",
        ],
        CLOCK,
    ),
    **dict.fromkeys(
        [
            "open", "io.open", "os.open", "os.fdopen", "os.fsync", "os.fdatasync", "os.write", "os.writev",
            "os.pwrite", "os.pwritev", "os.read", "os.pread", "os.preadv", "os.truncate", "os.ftruncate",
            "os.rename", "os.replace", "os.remove", "os.unlink", "os.mkdir", "os.makedirs", "os.rmdir",
            "os.listdir", "os.scandir", "os.walk", "os.link", "os.symlink", "os.posix_fallocate",
            "shutil.rmtree", "shutil.move", "shutil.copy", "shutil.copyfile", "shutil.copytree",
            "fcntl.flock", "fcntl.lockf", "mmap.mmap",
        ],
        FILES,
    ),
    **dict.fromkeys(
        [
            "random.random", "random.randint", "random.randrange", "random.uniform", "random.choice",
            "random.choices", "random.shuffle", "random.sample", "random.getrandbits", "random.seed",
        ],
        RANDOM,
    ),
    **dict.fromkeys(["asyncio.create_task", "asyncio.ensure_future", "loop.create_task"], OWNER),
    **dict.fromkeys(["time.sleep"], WAIT),
}  # fmt: skip
IO_MODULES = {"asyncio", "concurrent", "os", "pathlib", "select", "socket", "subprocess", "threading", "time"}
LEFTOVERS = re.compile(r"\b(FIX" + r"ME|TO" + r"DO|XX" + r"X|HA" + r"CK)\b")

# Tests of these folders live in virtual time.
TESTS_WITHOUT_SLEEP = ("unit", "property", "scenarios", "contract")
SLEEPS = {"time.sleep", "asyncio.sleep"}


# Where the fields of a record batch's header begin, except for the first.
HEADER_OWNER = "wire/records.py"
HEADER_FIELDS = (8, 12, 16, 17, 21, 23, 27, 35, 43, 51, 53, 57, 61)
HEADER_SLICES = set(pairwise(HEADER_FIELDS))


def source_problems(name: str, text: str) -> Iterator[str]:
    """What is wrong with one file of src/penstock; ``name`` is its path there."""
    tree = ast.parse(text)
    if not ast.get_docstring(tree):
        yield "1: a module says at its top what it is for"
    if text.count("\n") > FILE_LINES_MAX:
        warnings.warn(f"{name} has more than {FILE_LINES_MAX} lines; split it", stacklevel=2)
    yield from leftovers(text)
    for node in ast.walk(tree):
        yield from call_problems(name, node)
        yield from length_problems(node)
        yield from hidden_imports(node)
        if name != HEADER_OWNER:
            yield from layout_problems(node)
        if name.partition("/")[0] in LAYERS_WITHOUT_IO:
            yield from purity_problems(node)


def leftovers(text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        if LEFTOVERS.search(line):
            yield f"{number}: a leftover reminder; do it, or write an issue"


def call_problems(name: str, node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call():
            used = [ast.unparse(node.func)]
        case ast.ImportFrom(module=str(module)):  # `from time import monotonic` hides the call.
            used = [f"{module}.{alias.name}" for alias in node.names]
        case _:
            return
    for call in used:
        rule = BANNED_CALLS.get(call)
        if rule is not None and name not in rule.allowed:
            yield f"{node.lineno}: {call} is not used here; use {rule.instead}"


def length_problems(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            yield f"{node.lineno}: {node.name} has {lines} lines, more than {FUNCTION_LINES_MAX}"


def hidden_imports(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=function, args=[ast.Constant(value=str(module)), *_]) if ast.unparse(
            function
        ).endswith("import_module"):
            if module.partition(".")[0] == "penstock":
                yield f"{node.lineno}: import {module} where it is needed, with the reason beside it"
        case _:
            pass


def layout_problems(node: ast.AST) -> Iterator[str]:
    """A field of a record batch's header that is cut out by hand, or a constant for its place."""
    match node:
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=int(at))) if name.endswith(
            "_AT"
        ):
            found = name.endswith("_AT") and at in HEADER_FIELDS
        case ast.Slice(lower=ast.Constant(value=int(begin)), upper=ast.Constant(value=int(end))):
            found = (begin, end) in HEADER_SLICES
        case ast.Call(
            func=ast.Name(id="slice"), args=[ast.Constant(value=int(begin)), ast.Constant(value=int(end))]
        ):
            found = (begin, end) in HEADER_SLICES
        case _:
            return
    if found:
        yield f"{node.lineno}: the layout of a batch's header; use the accessors of {HEADER_OWNER}"


def purity_problems(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.AsyncFunctionDef():
            yield f"{node.lineno}: {node.name} is async; this layer is a plain state machine"
        case ast.Import():
            modules = [alias.name for alias in node.names]
        case ast.ImportFrom(module=str(module)):
            modules = [module]
        case _:
            return
    if isinstance(node, ast.Import | ast.ImportFrom):
        for module in modules:
            if module.partition(".")[0] in IO_MODULES:
                yield f"{node.lineno}: {module} in a layer without I/O"


def check_problems(name: str, text: str) -> Iterator[str]:
    """What is wrong with one file of tests/."""
    yield from leftovers(text)
    virtual_time = name.partition("/")[0] in TESTS_WITHOUT_SLEEP
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call() if virtual_time and ast.unparse(node.func) in SLEEPS:
                yield f"{node.lineno}: a test does not sleep; advance the ManualClock"
            case ast.ImportFrom(module="unittest.mock") | ast.ImportFrom(module="unittest"):
                yield f"{node.lineno}: no mocks; use a real object, in memory"
            case _:
                pass


def paths_below(folder: Path) -> list[str]:
    """Without what protoc has written."""
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))
    return sorted(name for name in names if "_pb2" not in name)


@pytest.mark.filterwarnings("default:.*; split it")
@pytest.mark.parametrize("name", paths_below(SOURCE))
def test_a_source_file_keeps_the_house_rules(name: str) -> None:
    assert [f"{name}:{problem}" for problem in source_problems(name, (SOURCE / name).read_text())] == []


@pytest.mark.parametrize("name", paths_below(ROOT / "tests"))
def test_a_test_file_keeps_the_house_rules(name: str) -> None:
    text = (ROOT / "tests" / name).read_text()

    assert [f"{name}:{problem}" for problem in check_problems(name, text)] == []


LONG_FUNCTION = '"""."""\ndef f():\n' + "    x = 1\n" * FUNCTION_LINES_MAX


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("log/log.py", "x = 1", "what it is for"),
        ("log/log.py", '"""."""  # TO' + "DO later", "leftover"),
        ("log/log.py", '"""."""\nt = time.time()', "Clock"),
        ("log/log.py", '"""."""\nfrom time import monotonic', "Clock"),
        ("log/log.py", '"""."""\nopen("x")', "log/files.py"),
        ("broker/files.py", '"""."""\nos.fdatasync(3)', "log/files.py"),
        ("config/backoff.py", '"""."""\nrandom.random()', "random.Random"),
        ("broker/embedded.py", '"""."""\nasyncio.create_task(f())', "TaskGroup"),
        ("log/log.py", LONG_FUNCTION, "f has 71 lines"),
        ("log/log.py", '"""."""\n_PRODUCER_AT: Final = 43', "accessors"),
        ("log/log.py", '"""."""\nsize = int.from_bytes(data[8:12])', "accessors"),
        ("log/log.py", '"""."""\nCOUNT = slice(57, 61)', "accessors"),
        ("aio.py", '"""."""\nimport_module("penstock.broker.aio")', "where it is needed"),
        ("delivery/engine.py", '"""."""\nasync def f(): ...', "state machine"),
        ("groups/membership.py", '"""."""\nimport os.path', "without I/O"),
        ("wire/records.py", '"""."""\nfrom asyncio import Queue', "without I/O"),
    ],
)
def test_each_rule_can_fail(name: str, text: str, words: str) -> None:
    [problem] = source_problems(name, text)

    assert words in problem


def test_a_long_file_is_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"log/log.py .* split it"):
        assert list(source_problems("log/log.py", '"""."""' + "\n" * (FILE_LINES_MAX + 1))) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("clock.py", '"""."""\ntime.time_ns()'),
        ("wire/records.py", '"""."""\n_PRODUCER_AT: Final = 43'),
        ("log/files.py", '"""."""\nos.fdatasync(3)'),
        ("broker/embedded.py", '"""."""\nfiles.open("x")'),
        ("broker/embedded.py", '"""."""\nimport asyncio\nasync def f(): ...'),
        ("config/backoff.py", '"""."""\nrandom.Random(7)'),
        ("cli/commands.py", '"""."""\nimport_module(f"penstock.cli.{name}")'),
    ],
)
def test_what_is_allowed_passes(name: str, text: str) -> None:
    assert list(source_problems(name, text)) == []


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("unit/test_x.py", "time.sleep(1)", "does not sleep"),
        ("property/test_x.py", "await asyncio.sleep(1)", "does not sleep"),
        ("unit/test_x.py", "from unittest.mock import patch", "no mocks"),
        ("crash/test_x.py", "# XX" + "X", "leftover"),
    ],
)
def test_each_rule_for_tests_can_fail(name: str, text: str, words: str) -> None:
    [problem] = check_problems(name, text)

    assert words in problem
