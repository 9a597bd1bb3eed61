"""Sessions of browsers: begun, found, guarded, and over."""

import pytest

from penstock.frontends.security import sessions
from penstock.frontends.security.identity import Credentials, Identity
from penstock.frontends.security.sessions import IDLE_MS, LIFE_MS, BrowserSessions
from penstock.testing import ManualClock

ANNA = Identity(kind="user", name="anna")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_session_is_found_by_its_token_and_by_nothing_else(clock: ManualClock) -> None:
    known = BrowserSessions(clock)

    token, session = known.begin(ANNA, Credentials())
    other, _ = known.begin(ANNA, Credentials())

    assert known.find(token) is session
    assert known.find(other) is not session
    assert [known.find(wrong) for wrong in ("", token[:-1], token + "x", session.guard, "\udc80")] == [
        None
    ] * 5
    assert token.encode() not in repr(known._sessions).encode()


def test_a_request_shows_the_guard_of_its_own_session(clock: ManualClock) -> None:
    known = BrowserSessions(clock)
    token, first = known.begin(ANNA, Credentials())
    _, second = known.begin(ANNA, Credentials())

    assert first.guarded_by(first.guard)
    assert not any(first.guarded_by(wrong) for wrong in ("", token, second.guard, "\udc80"))


def test_a_session_that_is_not_used_ends_and_one_that_is_goes_on_for_its_life(clock: ManualClock) -> None:
    known = BrowserSessions(clock)
    idle, _ = known.begin(ANNA, Credentials())
    used, _ = known.begin(ANNA, Credentials())
    for _ in range(LIFE_MS // IDLE_MS):
        clock.move_to(clock.steady_ms() + IDLE_MS)
        assert known.find(used) is not None

    assert known.find(idle) is None
    clock.move_to(clock.steady_ms() + 1)
    assert known.find(used) is None


def test_a_logout_ends_it(clock: ManualClock) -> None:
    known = BrowserSessions(clock)
    token, _ = known.begin(ANNA, Credentials())

    known.end(token)
    known.end(token)

    assert known.find(token) is None


def test_the_one_that_was_used_longest_ago_makes_room(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 2)
    known = BrowserSessions(clock)
    first, second = (known.begin(ANNA, Credentials())[0] for _ in range(2))
    known.find(first)

    known.begin(ANNA, Credentials())

    assert known.find(first) is not None
    assert known.find(second) is None
