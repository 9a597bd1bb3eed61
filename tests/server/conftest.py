"""Servers for the tests: one for each module that asks, on its own directory."""

from collections.abc import Iterator

import pytest
from tests.server.process import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that the tests of a module share; at the end, its log must be clean."""
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running
        assert running.running
        running.check_log()
        assert running.stop() == 0
        running.check_log()
