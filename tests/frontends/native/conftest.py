"""What the server logs as its own bug fails the test that caused it."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_bugs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    bugs = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert not bugs, "\n".join(f"{record.getMessage()}\n{record.exc_text}" for record in bugs)
