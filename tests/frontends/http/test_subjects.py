"""Subjects of the schema registry in paths: their names may have any characters."""

import pytest
from tests.frontends.http.browser import Place

SCHEMA = {"schema": '"string"'}


@pytest.mark.parametrize(
    ("subject", "encoded"),
    [
        ("shop/address.proto", "shop%2Faddress.proto"),
        ("shop/versions/1", "shop%2fversions%2f1"),
        ("/", "%2F"),
        ("100%/2 %2F", "100%25%2F2%20%252F"),
    ],
)
async def test_a_subject_may_have_slashes(http: Place, subject: str, encoded: str) -> None:
    made = await http.ask("POST", f"/subjects/{encoded}/versions", SCHEMA)
    version = await http.ask("GET", f"/subjects/{encoded}/versions/1")
    level = await http.ask("PUT", f"/config/{encoded}", {"compatibility": "FULL"})

    assert (made.status, made.json["id"]) == (200, 1)
    assert (await http.ask("GET", "/subjects")).json == [subject]
    assert version.json["subject"] == subject
    assert level.status == 200
    assert (await http.ask("GET", f"/config/{encoded}")).json == {"compatibilityLevel": "FULL"}
    assert (await http.ask("DELETE", f"/subjects/{encoded}")).json == [1]


@pytest.mark.parametrize("path", ["/subjects/a/b/versions", "/subjects/a%2Fb/c", "/subjects%2Fa/versions"])
async def test_slashes_that_are_not_encoded_are_those_of_the_path(http: Place, path: str) -> None:
    answer = await http.ask("GET", path)

    assert (answer.status, answer.code) == (404, "ROUTE_NOT_FOUND")
    assert path.replace("%2F", "/") in answer.json["detail"]


async def test_a_method_that_a_subject_does_not_have_names_its_path(http: Place) -> None:
    answer = await http.ask("PATCH", "/subjects/a%2Fb")

    assert answer.status == 405
    assert "/subjects/a/b" in answer.json["message"]
