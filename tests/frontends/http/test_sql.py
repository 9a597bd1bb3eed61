"""SQL over HTTP, as far as this process has to do with it: finding a session, passing results on, limits."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.frontends.http.browser import PATIENCE_S, Place, place
from tests.frontends.http.sql_stand_in import Result, SqlStandIn, announce, sql_stand_in

from penstock.frontends.http.handlers import sql
from penstock.frontends.http.handlers.sql import accepted
from penstock.model.access import Grant
from penstock.wire.sql import RunQuery

ONE = {"columns": [{"name": "one", "type": "int"}], "rows": [[1]], "truncated": False}
QUERY = {"query": "select 1 as one"}


@pytest.fixture
async def stand_in(http: Place, tmp_path: Path) -> AsyncIterator[SqlStandIn]:
    async with sql_stand_in(http.broker, tmp_path) as made:
        made.answer = one
        yield made


async def one(request: RunQuery) -> Result:
    return ONE if request.form == "json" else b"one\n1\n"


async def never(_: RunQuery) -> Result:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_result_is_passed_on_as_it_comes(http: Place, stand_in: SqlStandIn) -> None:
    answer = await http.ask("POST", "/v1/sql", {**QUERY, "limit": 7, "timeout": "5s"})

    assert (answer.status, answer.json) == (200, ONE)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["penstock-truncated"] == "false"
    assert stand_in.queries == [RunQuery("select 1 as one", 7, "json", 5.0)]


async def test_accept_chooses_the_form(http: Place, stand_in: SqlStandIn) -> None:
    answer = await http.ask("POST", "/v1/sql", QUERY, {"accept": "text/csv"})

    assert answer.body == b"one\n1\n"
    assert answer.headers["content-type"] == "text/csv"
    assert answer.headers["content-disposition"] == 'attachment; filename="result.csv"'
    assert stand_in.queries[0].form == "csv"


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        (None, "application/json"),
        ("*/*", "application/json"),
        ("text/html, text/csv;q=0.9", "text/csv"),
        ("application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.stream"),
    ],
)
def test_the_first_type_that_there_is_counts(header: str | None, kind: str) -> None:
    assert accepted(header) == kind


async def test_tables_and_columns_are_passed_on(http: Place, stand_in: SqlStandIn) -> None:
    stand_in.tables = {"web.clicks": [("offset", "bigint")]}

    tables = await http.ask("GET", "/v1/sql/tables")
    columns = await http.ask("GET", "/v1/sql/tables/web.clicks")

    assert tables.json == {"tables": ["web.clicks"]}
    assert columns.json == {"columns": [{"name": "offset", "type": "bigint"}]}


async def test_an_error_of_the_other_side_is_a_problem(http: Place, stand_in: SqlStandIn) -> None:
    stand_in.answer = stand_in._unknown

    answer = await http.ask("POST", "/v1/sql", QUERY)

    assert (answer.status, answer.code) == (400, "QUERY_INVALID")
    assert "did you mean orders?" in answer.json["detail"]


async def test_without_a_session_the_error_says_what_starts_one(http: Place) -> None:
    answer = await http.ask("POST", "/v1/sql", QUERY)

    assert (answer.status, answer.code) == (503, "SQL_UNAVAILABLE")
    assert "penstock serve --archive" in answer.json["detail"]


@pytest.mark.parametrize("changed", [{"host": "elsewhere"}, {"state": "stopped"}, {"updated_ms": 0}])
async def test_a_run_elsewhere_or_one_that_has_ended_is_not_asked(
    http: Place, stand_in: SqlStandIn, changed: dict[str, object]
) -> None:
    await announce(http.broker, stand_in.path, **changed)

    answer = await http.ask("POST", "/v1/sql", QUERY)

    assert answer.code == "SQL_UNAVAILABLE"
    assert stand_in.sessions == []


async def test_credentials_are_not_given_to_a_process_of_another_user(
    http: Place, stand_in: SqlStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)

    answer = await http.ask("POST", "/v1/sql", QUERY)

    assert answer.code == "SQL_UNAVAILABLE"
    assert stand_in.sessions == []


async def test_sessions_are_restricted_and_have_the_credentials_of_the_caller(tmp_path: Path) -> None:
    async with place(authentication=True) as http, sql_stand_in(http.broker, tmp_path) as stand_in:
        for role in ("admin", "reader"):
            made = await http.broker.create_key(role, [Grant(role=role)])
            answer = await http.ask("POST", "/v1/sql", QUERY, {"authorization": f"Bearer {made.key}"})
            assert answer.code == "QUERY_INVALID"
            assert stand_in.sessions[-1].options == {"key": made.key}

    assert [session.restricted for session in stand_in.sessions] == [True, True]
    assert [session.lake_tables for session in stand_in.sessions] == [True, False]


async def test_a_client_that_disconnects_ends_its_query(http: Place, stand_in: SqlStandIn) -> None:
    stand_in.answer = never
    browser = await http.browser()
    body = msgspec.json.encode(QUERY)
    head = ("POST /v1/sql HTTP/1.1", "host: localhost", "content-type: application/json")
    browser.send("\r\n".join([*head, f"content-length: {len(body)}", "", ""]).encode() + body)
    async with asyncio.timeout(PATIENCE_S):
        while not stand_in.queries:
            await http.turn()

    await browser.close()

    async with asyncio.timeout(PATIENCE_S):
        await stand_in.left.wait()
        while http.listener.shared.sql_running:
            await http.turn()


async def test_no_more_than_the_limit_run_at_a_time(
    http: Place, stand_in: SqlStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "QUERIES_MAX", 0)

    answer = await http.ask("POST", "/v1/sql", QUERY)

    assert (answer.status, answer.code) == (503, "OVERLOADED")
    assert stand_in.sessions == []


async def test_a_result_that_is_cut_short_has_no_end(http: Place, stand_in: SqlStandIn) -> None:
    stand_in.ends_early = True
    browser = await http.browser()

    with pytest.raises((asyncio.IncompleteReadError, ValueError, ConnectionError)):
        await browser.ask("POST", "/v1/sql", QUERY)
    assert http.listener.shared.sql_running == 0


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"query": ""}, "REQUEST_INVALID"),
        ({"query": "select 1", "limit": 1_000_001}, "REQUEST_INVALID"),
        ({"query": "select 1", "timeout": "11m"}, "VALUE_INVALID"),
        ({"query": "select 1", "timeout": "soon"}, "VALUE_INVALID"),
        ({}, "REQUEST_INVALID"),
    ],
)
async def test_a_request_beyond_the_limits_is_refused(
    http: Place, body: dict[str, object], code: str
) -> None:
    assert (await http.ask("POST", "/v1/sql", body)).code == code
