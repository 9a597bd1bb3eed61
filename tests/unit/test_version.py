"""Which Penstock this is, and which build is under test."""

import os
import re

import pytest

from penstock.version import VERSION, compiled, version_line


def test_the_version_line_names_the_version_and_the_build() -> None:
    build = "compiled" if compiled() else "interpreted"

    assert version_line() == f"penstock {VERSION} ({build})"
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)


@pytest.mark.skipif("PENSTOCK_BUILD" not in os.environ, reason="any build will do; `make test` asks for each")
def test_the_build_under_test_is_the_one_that_was_asked_for() -> None:
    """Without this the compiled run could quietly test the interpreted code twice."""
    assert ("compiled" if compiled() else "interpreted") == os.environ["PENSTOCK_BUILD"]
