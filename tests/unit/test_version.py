"""Which Penstock this is, and which build is under test."""

import os
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from penstock.version import __version__, compiled, version_line

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
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
