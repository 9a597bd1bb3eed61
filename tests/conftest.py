"""Settings every test shares.

The environment variable HYPOTHESIS_PROFILE says how hard the property tests
try: dev (50 examples, the default), ci (200) or soak (20,000).  The option
``--rewrite`` writes the expected output of the scenario files anew.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.full_disk import small_disk

from penstock.version import version_line

# A state machine that opens logs and restarts brokers is slow to draw, and meant to be.
SLOW_IS_FINE = [HealthCheck.too_slow]

# No deadline: the machine is shared, and a slow example is not a wrong one.
settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=SLOW_IS_FINE)
settings.register_profile(
    "ci", max_examples=200, deadline=None, suppress_health_check=SLOW_IS_FINE, print_blob=True
)
settings.register_profile(
    "soak", max_examples=20_000, deadline=None, suppress_health_check=SLOW_IS_FINE, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="rewrite the expected output of scenario files")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what takes minutes, except in a soak."""
    if os.environ.get("HYPOTHESIS_PROFILE") != "soak":
        for item in items:
            if item.get_closest_marker("soak"):
                item.add_marker(pytest.mark.skip("takes minutes; `make soak` runs it"))


def pytest_report_header() -> str:
    return version_line()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a megabyte."""
    with small_disk(tmp_path / "tiny", 1) as place:
        yield place
