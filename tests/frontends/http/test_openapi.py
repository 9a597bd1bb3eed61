"""The document that describes the API is made from the table, and whole."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.frontends.http.browser import Place

from penstock.frontends.http.pages.openapi import codes, document
from penstock.frontends.http.routes import ROUTES
from penstock.frontends.security.needs import NEEDS


def references(value: Any) -> set[str]:
    """Everything that a document refers to."""
    if isinstance(value, dict):
        here = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return here.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


async def test_the_document_is_served_without_a_login(http: Place) -> None:
    answer = await http.ask("GET", "/openapi.json")

    assert answer.status == 200
    assert answer.json == msgspec.json.decode(msgspec.json.encode(document(ROUTES)))


def test_every_route_is_in_the_document_and_everything_it_refers_to() -> None:
    made = document(ROUTES)

    there = {(method.upper(), path) for path, methods in made["paths"].items() for method in methods}
    assert there == {(route.method, route.path) for route in ROUTES}
    components = {f"#/components/schemas/{name}" for name in made["components"]["schemas"]}
    assert references(made) <= components


def test_the_names_of_operations_are_unique() -> None:
    names = [route.name for route in ROUTES]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_route_has_a_sentence_and_needs_what_the_guard_knows(route: Any) -> None:
    assert route.summary.endswith(".")
    assert route.operation is None or route.operation in NEEDS
    assert codes(route)


def test_every_route_is_in_the_page_and_none_that_is_not_there() -> None:
    page = (Path(__file__).parents[3] / "docs" / "http.md").read_text()

    told = re.findall(r"`((?:GET|HEAD|POST|PUT|PATCH|DELETE) /[^` ]*)`", page.partition("## Publishing")[0])
    assert set(told) == {f"{route.method} {route.path}" for route in ROUTES}
