"""What the server logs as its own bug fails the test that caused it."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def bugs(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """The bugs that were logged, for a test that wants one; it takes them out of the list."""
    known: list[str] = []
    yield known
    found = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    told = [f"{record.getMessage()}: {record.exc_info and record.exc_info[1]!r}" for record in found]
    assert told == known


@pytest.fixture(autouse=True)
def no_bugs(bugs: list[str]) -> None:
    """For every test that does not ask."""
