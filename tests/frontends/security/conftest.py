"""Passwords that are hashed quickly, because the tests have many of them and nothing to hide."""

import pytest


@pytest.fixture(autouse=True)
def _quick_hashes(quick_hashes: None) -> None:
    """In every test of this package."""
