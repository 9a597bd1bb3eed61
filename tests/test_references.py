"""Every module, page, heading and decision that is mentioned in prose exists.

Prose is README.md, CONTRIBUTING.md and docs/ without their code blocks, and the docstrings and
comments of ``src``.  (``test_docs.py`` checks the links between pages.)

    pkg/x.py, docs/x.md     a path from the root of the repository, from src/penstock, from tests,
                            or from a directory above the file that mentions it
    x.py                    a module in the same package, in src/penstock itself, or unique in the tree
    docs/x.md#heading       a heading of that page
    `frontends/http`        a directory
    decision 0012           a page in docs/decisions
    rule 22                 a rule of docs/format/cluster.md
    `penstock.x.Name`       a module, or a name that is in the text of that module

A name from the past is marked as such: it is followed by "(now ...)" or "(removed)".
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.test_docs import FENCE, PAGES, anchors

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "penstock"
MODULES = sorted((ROOT / "src").rglob("*.py"))

FILE = re.compile(r"(?<![\w./*<>{-])((?:[\w.-]+/)*[a-z_]\w*\.(?:py|md))\b(?![.!])(?:#([\w-]+))?")
FOLDER = re.compile(r"`((?:[a-z_]+/)+[a-z_]*)`")
DECISION = re.compile(r"\bdecisions?[ /](\d{4})\b|\[(\d{4})\]")
DOTTED = re.compile(r"`penstock((?:\.\w+)+)(?:\(\))?`")
RULES = re.compile(r"\brules?\s+\d+(?:(?:-|,\s|\sand\s)\d+)*", re.IGNORECASE)  # Rules 17, 21 and 26.
HISTORIC = re.compile(r"`*\s+\((?:now\s|removed\))")
LINK_TARGET = re.compile(r"\]\([^)]*\)")
CALL = re.compile(r"\b(?:([A-Z_]\w+)\.)?(\w+)\(\)")  # In a diagram: Queues.receive().
COMMENT = re.compile(r"(?:^|\s)# (.*)$", re.MULTILINE)
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

NOT_MODULES = {
    "penstock.json",
    "penstock.headers",
    "penstock.validation",
    "penstock.proto",
}  # Files, and an option of Spark.
DIVIDED = ("broker", "client", "cluster", "frontends", "spark")
NOT_FOLDERS = ("bin/", "test/", "tests/integration")  # Of Java and of the clients' repositories.


@cache
def modules_called(name: str) -> int:
    return sum(path.name == name for path in MODULES)


@cache
def headings(page: Path) -> set[str]:
    return anchors(page.read_text())


def file_found(page: Path, name: str, heading: str) -> bool:
    """Whether a file, and a heading in it, exist; ``page`` is the file that mentions them."""
    above = [folder for folder in page.parents if ROOT in folder.parents]
    found = [base / name for base in (ROOT, SOURCE, ROOT / "tests", *above) if (base / name).is_file()]
    if not found:
        return "/" not in name and modules_called(name) == 1
    return not heading or heading in headings(found[0])


def folder_found(name: str) -> bool:
    bases = [base for base in (ROOT, SOURCE) if (base / name.partition("/")[0]).is_dir()]
    return not bases or any((base / name).is_dir() for base in bases)


def decision_found(number: str) -> bool:
    return any((ROOT / "docs" / "decisions").glob(f"{number}-*.md"))


def dotted_found(names: list[str]) -> bool:
    """Whether names lead from the package to a module, or to a word that its text has."""
    at = SOURCE
    for name in names:
        if (at / name).is_dir():
            at /= name
        elif (at / f"{name}.py").is_file():
            at /= f"{name}.py"
        else:
            text = (at / "__init__.py" if at.is_dir() else at).read_text()
            return re.search(rf"\b{name}\b", text) is not None
    return True


def broken_references(page: Path, text: str) -> Iterator[str]:
    """What a text mentions that is not there."""
    for match in FILE.finditer(text):
        if not file_found(page, match[1], match[2] or "") and not HISTORIC.match(text, match.end()):
            yield match[0]
    for match in FOLDER.finditer(text):
        if not folder_found(match[1]) and not match[1].startswith(NOT_FOLDERS):
            yield match[1]
    for match in DECISION.finditer(text):
        if not decision_found(match[1] or match[2]):
            yield match[0]
    for match in DOTTED.finditer(text):
        dotted = match[0].strip("`")
        if dotted not in NOT_MODULES and not dotted_found(match[1].strip(".").split(".")):
            yield dotted


def prose_of_page(text: str) -> str:
    return LINK_TARGET.sub("]", FENCE.sub("", text))


def prose_of_module(text: str) -> str:
    """Its docstrings and comments.  Parsed only if there is something to find: that takes the time."""
    if not any(pattern.search(text) for pattern in (FILE, FOLDER, DECISION, DOTTED)):
        return ""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, DOCUMENTED)]
    return "\n".join([*(ast.get_docstring(node) or "" for node in nodes), *COMMENT.findall(text)])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_mentions_exists(page: Path) -> None:
    assert list(broken_references(page, prose_of_page(page.read_text()))) == []


def test_what_docstrings_and_comments_mention_exists() -> None:
    broken = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in MODULES
        for name in broken_references(path, prose_of_module(path.read_text()))
    ]

    assert broken == []


@pytest.mark.parametrize(
    "text",
    [
        "see `nowhere.py`",
        "see ``log/nowhere.py``",
        "see docs/nowhere.md",
        "see docs/guarantees.md#nothing",
        "in `log/nowhere`",
        "decision 9999",
        "[9999]",
        "`penstock.nowhere`",
        "`penstock.testing.Nothing`",
    ],
)
def test_a_broken_reference_is_noticed(text: str) -> None:
    assert len(list(broken_references(ROOT / "docs" / "x.md", text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "`log.py`, `log/log.py`, `src/penstock/log/log.py`",
        "docs/guarantees.md#by-operation, architecture.md, `unit/test_log.py`",
        "`frontends/http`, `Europe/Berlin`, decision 0012, [0020]",
        "`penstock.testing.open`, `penstock.json`",
        "`limits.md` (now decision 0012), `vacuum.py` (removed)",
    ],
)
def test_what_exists_may_be_mentioned(text: str) -> None:
    assert list(broken_references(ROOT / "docs" / "x.md", text)) == []


def test_a_bare_name_that_two_packages_have_means_the_one_of_the_same_package() -> None:
    assert list(broken_references(SOURCE / "schedule" / "schedule.py", "see ``recovery.py``")) == []
    assert list(broken_references(ROOT / "README.md", "see `recovery.py`")) == ["recovery.py"]


def test_every_rule_of_a_cluster_that_is_mentioned_by_number_exists() -> None:
    page = (ROOT / "docs" / "format" / "cluster.md").read_text()
    rules = {int(number) for number in re.findall(r"^(\d+)\. ", page, re.MULTILINE)}

    mentioned = {
        int(number)
        for path in MODULES
        for found in RULES.findall(path.read_text())
        for number in re.findall(r"\d+", found)
    }

    assert rules == set(range(1, len(rules) + 1))
    assert mentioned, "the pattern finds none"
    assert mentioned <= rules


def test_the_functions_in_the_diagrams_of_the_architecture_exist() -> None:
    blocks = FENCE.findall((ROOT / "docs" / "architecture.md").read_text())
    names = [name for _, block in blocks for name in CALL.findall(block)]
    sources = [path.read_text() for path in MODULES]

    def is_there(owner: str, name: str) -> bool:
        has_owner = re.compile(rf"^class {owner}\b" if owner else "", re.MULTILINE)
        return any(f"def {name}(" in text and has_owner.search(text) for text in sources)

    assert len(names) > 50
    assert [(owner, name) for owner, name in names if not is_there(owner, name)] == []


def test_the_package_map_names_every_package() -> None:
    """Of the packages in ``DIVIDED`` also those within."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    listed = page[page.index("## Package map") : page.index("## Layers")]
    named = {name.rstrip("/") for name in re.findall(r"`([\w/]+)`", listed)}
    packages = [path.parent.relative_to(SOURCE) for path in SOURCE.glob("*/**/__init__.py")]
    wanted = {"/".join(each.parts[: 2 if each.parts[0] in DIVIDED else 1]) for each in packages}

    assert sorted(wanted - named - {"cluster"}) == []  # Its modules are named one by one.
