"""Passwords that are hashed quickly, because the tests have many of them and nothing to hide."""

import pytest


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.broker.access.access.PASSWORD_COST", 2)
    monkeypatch.setattr("penstock.broker.access.access.KEY_COST", 2)
    monkeypatch.setattr("penstock.frontends.security.logins.PASSWORD_COST", 2)
