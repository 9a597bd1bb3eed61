"""What the documents show is true: Python runs, examples print what they say, links lead somewhere.

    ```python blocks of README.md and docs/    each by itself, in an empty directory
    examples/*.py                              what they print is in their docstring, after "Prints:"
    examples/test_*.py                         by pytest, as their readers would

A block that connects to the usual address finds a real server there, in memory.
A block that is not meant to run has ``<!-- not run: why -->`` on the line above it.
"""

import ast
import inspect
import re
import runpy
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.client.served import VirtualServer
from tests.contract.over_grpc import GrpcServer

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PROGRAMS = [path for path in EXAMPLES if not path.name.startswith("test_")]
NOT_RUN = "<!-- not run: "
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVER = "penstock://127.0.0.1:7070"
GRPC = "127.0.0.1:9000"
LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced piece of Python."""

    page: Path
    line: int  # Where its first line of code is.
    code: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def python_blocks(page: Path, text: str) -> list[Block]:
    """The blocks of a page that are meant to run."""
    found = []
    for match in FENCE.finditer(text):
        before = text[: match.start()].rstrip("\n").rpartition("\n")[2]
        if match[1] == "python" and not before.startswith(NOT_RUN):
            found.append(Block(page, text.count("\n", 0, match.start(2)) + 1, match[2]))
    return found


BLOCKS = [block for page in PAGES for block in python_blocks(page, page.read_text())]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_python_in_the_documents_runs(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n" * (block.line - 1) + block.code  # So that a traceback names the page's own line.
    kind = GrpcServer if GRPC in code else VirtualServer if SERVER in code else nullcontext
    with kind() as server:
        if server is not None:
            code = code.replace(SERVER, server.url)
        if isinstance(server, GrpcServer):
            code = code.replace(GRPC, f"127.0.0.1:{server.grpc_port}")

        # Twice, because the first thing that a reader does with a program that works is to run it again.
        for _ in range(2):
            exec(compile(code, str(block.page), "exec"), {"__name__": "__main__"})


def printed_by_its_docstring(path: Path) -> str:
    """What an example says that it prints."""
    text = inspect.cleandoc(ast.get_docstring(ast.parse(path.read_text())) or "")
    _, _, promised = text.partition("Prints:\n")
    return inspect.cleandoc(promised)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.name))
def test_an_example_prints_what_its_docstring_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    promised = printed_by_its_docstring(path)
    monkeypatch.chdir(tmp_path)

    runpy.run_path(str(path), run_name="__main__")

    assert promised
    assert capsys.readouterr().out.splitlines() == promised.splitlines()


@pytest.mark.slow
def test_the_examples_of_tests_pass() -> None:
    tests = [str(path) for path in EXAMPLES if path.name.startswith("test_")]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert tests
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_overview_names_every_example() -> None:
    overview = (ROOT / "docs" / "README.md").read_text()

    assert [path.name for path in EXAMPLES if f"examples/{path.name}" not in overview] == []


def anchors(text: str) -> set[str]:
    """The places of a page that a link may name, by GitHub's rule."""
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path, text: str) -> list[str]:
    """Links to files or sections that do not exist; addresses on the network are not looked at."""
    broken = []
    for link in LINK.findall(FENCE.sub("", text)):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve()
        known = target.exists() if name else True
        if known and anchor:
            known = anchor in anchors(target.read_text() if name else text)
        if not known:
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text()) == []


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "decisions").glob("0*.md")), ids=lambda page: str(page.name)
)
def test_a_decision_says_why_and_what_would_change_it(page: Path) -> None:
    titles = re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE)

    assert titles[:2] == ["Context", "Choice"]
    assert titles[-1] == "What would change our mind"


def test_the_index_has_every_decision() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text()

    assert [page.name for page in sorted(folder.glob("0*.md")) if f"]({page.name})" not in index] == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("```python\nprint(1)\n```\n", 1),
        ("words\n```sh\nmake run\n```\n```python\nx = 1\n```\n", 1),
        ("<!-- not run: half a program -->\n```python\n...\n```\n", 0),
    ],
)
def test_blocks_that_are_meant_to_run_are_found(text: str, count: int) -> None:
    assert len(python_blocks(ROOT / "README.md", text)) == count


def test_a_broken_link_is_noticed() -> None:
    text = "[a](README.md) [b](nowhere.md) [c](#nothing) [d](https://example.org)\n# A title\n[e](#a-title)"

    assert broken_links(ROOT / "x.md", text) == ["nowhere.md", "#nothing"]
