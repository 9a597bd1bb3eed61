"""The tests that docs/guarantees.md names exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text()


def test_every_test_file_that_the_page_names_is_there() -> None:
    folders = "client|contract|crash|frontends|property|server|unit"
    names = re.findall(rf"`((?:{folders})/[a-z_/]*(?:\.py)?)`", PAGE)

    assert len(names) > 15
    assert [name for name in names if not (ROOT / "tests" / name).exists()] == []


def test_every_test_that_the_page_names_is_there() -> None:
    names = re.findall(r"`(test_[a-z_]+|Test[A-Za-z]+)`", PAGE)
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))

    assert len(names) > 15
    assert [name for name in names if f"def {name}(" not in tests and f"\n{name} =" not in tests] == []
