"""What all front ends' tests share: none of them may make the event loop stand still."""

import inspect
from collections.abc import AsyncIterator

import pytest
from tests.stalls import watched


@pytest.fixture
async def watched_loop() -> AsyncIterator[None]:
    """The loop of an async test, with the server in it."""
    with watched():
        yield


@pytest.fixture(autouse=True)
def no_stalls(request: pytest.FixtureRequest) -> None:
    """Every async test; those with a server in a thread or a process are watched there."""
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("watched_loop")


@pytest.fixture
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords and keys quickly: the tests have many of them and nothing to hide."""
    monkeypatch.setattr("penstock.broker.access.access.PASSWORD_COST", 2)
    monkeypatch.setattr("penstock.broker.access.access.KEY_COST", 2)
    monkeypatch.setattr("penstock.frontends.security.logins.PASSWORD_COST", 2)
