"""The dashboard and the alerts: PromQL that parses, and metrics that exist."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import promql_parser
import pytest
import yaml

from penstock.broker.observability.metrics import SECTIONS
from penstock.model.info import ProblemKind, VerdictWord

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "penstock.json").read_text())
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
OF_PROMETHEUS = {"up", "job", "instance", "le", "__name__"}  # A series, and labels, that it adds itself.
SUFFIXES = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
KNOWN = {
    metric.name + suffix: {*section.labels, *metric.labels} | ({"le"} if suffix == "_bucket" else set())
    for section in SECTIONS
    for metric in section.metrics
    for suffix in SUFFIXES[metric.kind]
}


def expressions() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield (
                f"panel {panel['title']} {target['refId']}",
                target["expr"].replace("$__rate_interval", "5m"),
            )
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"])
            assert found is not None
            yield f"variable {variable['name']}", f"sum by ({found[2]}) ({found[1]})"
    for rule in RULES:
        yield f"alert {rule['alert']}", rule["expr"]


def selectors(node: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """Each name that an expression selects, with the labels it asks for."""
    match node:
        case promql_parser.VectorSelector():
            assert node.name is not None
            yield node.name, {matcher.name: matcher.value for matcher in node.matchers.matchers}
        case promql_parser.MatrixSelector():
            yield from selectors(node.vector_selector)
        case promql_parser.BinaryExpr():
            yield from selectors(node.lhs)
            yield from selectors(node.rhs)
        case promql_parser.Call():
            for argument in node.args:
                yield from selectors(argument)
        case promql_parser.AggregateExpr() | promql_parser.ParenExpr():
            yield from selectors(node.expr)
        case promql_parser.NumberLiteral():
            pass
        case _:
            raise AssertionError(f"unknown here: {type(node)}")


@pytest.mark.parametrize(("place", "expression"), list(expressions()), ids=lambda text: text)
def test_an_expression_parses_and_asks_for_metrics_and_labels_that_exist(place: str, expression: str) -> None:
    parsed = promql_parser.parse(expression)

    for name, labels in selectors(parsed):
        assert name in KNOWN.keys() | OF_PROMETHEUS
        assert set(labels) <= KNOWN.get(name, set()) | OF_PROMETHEUS
        for word in labels.get("verdict", "").split("|"):
            assert word in {"", *get_args(VerdictWord)}
        for word in labels.get("kind", "").split("|"):
            assert word in {"", *get_args(ProblemKind)}


def test_an_alert_says_what_happened_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_panels_have_their_own_numbers_and_none_covers_another() -> None:
    panels = DASHBOARD["panels"]
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in panels
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_a_metric_that_does_not_exist_is_found() -> None:
    [(name, labels)] = selectors(promql_parser.parse('rate(penstock_typo_total{topic="x"}[5m])'))

    assert (name, labels) == ("penstock_typo_total", {"topic": "x"})
    assert name not in KNOWN
