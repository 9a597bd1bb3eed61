"""docs/metrics.md is the table of metrics."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    writer = runpy.run_path(str(ROOT / "scripts" / "metrics_page.py"))

    assert (ROOT / "docs" / "metrics.md").read_text() == writer["page"](), "run `make docs`"
