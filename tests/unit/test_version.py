"""Which Penstock this is, and which build is under test."""

import ast
import os
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from penstock.version import __version__, compiled, version_line

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HOT_MODULES: list[str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]["include"]


def test_the_version_line_names_the_version_and_the_build() -> None:
    build = "compiled" if compiled() else "interpreted"

    assert version_line() == f"penstock {__version__} ({build})"
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


@pytest.mark.skipif("PENSTOCK_BUILD" not in os.environ, reason="any build will do; `make test` asks for each")
def test_the_build_under_test_is_the_one_that_was_asked_for() -> None:
    """Without this the compiled run could quietly test the interpreted code twice."""
    assert ("compiled" if compiled() else "interpreted") == os.environ["PENSTOCK_BUILD"]


@pytest.mark.parametrize("path", HOT_MODULES)
def test_a_hot_module_exists_and_is_compiled_with_the_others(path: str) -> None:
    """A misspelt name in the list would be left out without a word."""
    name = ".".join(Path(path).relative_to("src").with_suffix("").parts)

    spec = find_spec(name)

    assert spec is not None
    assert spec.origin is not None
    assert spec.origin.endswith(".py") != compiled()


@pytest.mark.parametrize("path", HOT_MODULES)
def test_nothing_compiled_waits_while_it_handles_an_error(path: str) -> None:
    """mypyc would show that error to whatever else the thread does meanwhile."""
    tree = ast.parse((ROOT / path).read_text())
    handlers: list[ast.AST] = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    handlers += [each for node in ast.walk(tree) if isinstance(node, ast.Try) for each in node.finalbody]
    inside = [node for handler in handlers for node in ast.walk(handler)]

    assert [node.lineno for node in inside if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom)] == []
