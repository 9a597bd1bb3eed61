"""Write docs/metrics.md from the table of metrics; ``tests/unit/test_metrics_page.py`` compares the two.

The source of every word is ``src/penstock/broker/observability/metrics.py``.
"""

from pathlib import Path

from penstock.broker.observability.metrics import SECTIONS, Metric, Section

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"

HEAD = """\
# Metrics

*Written by `make docs` from `src/penstock/broker/observability/metrics.py`; change it there.*

`GET /metrics` of the [HTTP listener](http.md) exports these metrics in the Prometheus text format;
[observability](observability.md) describes how to collect them, and the dashboards and alerts. Counters start
at zero when the server starts. A histogram `x` is the series `x_bucket`, `x_sum` and `x_count`.
"""


def section(of: Section) -> str:
    """One table."""
    rows = "".join(row(of, metric) for metric in of.metrics)
    return f"\n## {of.title}\n\n| metric | kind | labels | meaning |\n| --- | --- | --- | --- |\n{rows}"


def row(of: Section, metric: Metric) -> str:
    """One metric."""
    labels = ", ".join(f"`{label}`" for label in of.labels + metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.meaning} |\n"


def page() -> str:
    """The whole page."""
    return HEAD + "".join(section(each) for each in SECTIONS)


if __name__ == "__main__":
    PAGE.write_text(page())
