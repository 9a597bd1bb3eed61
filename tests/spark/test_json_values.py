"""The text of queries that extract fields of JSON values; what Spark makes of it is in ``test_tables.py``."""

import pytest

from penstock.spark.queries.json_values import parsing_json


@pytest.mark.parametrize(
    ("query", "parsed"),
    [
        ("select value:a.b[0]", "select try_parse_json(string(value)):a.b[0]"),
        (
            "select o.Value : a, `key`:b",
            "select try_parse_json(string(o.Value)) : a, try_parse_json(string(`key`)):b",
        ),
        ("select `a b`.`value`:x::int", "select try_parse_json(string(`a b`.`value`)):x::int"),
    ],
)
def test_a_colon_after_a_payload_parses_it(query: str, parsed: str) -> None:
    assert parsing_json(query) == parsed


@pytest.mark.parametrize(
    "query",
    [
        "select value::string",
        "select 'value:a', \"value:a\", 'it\\'s value:a'",
        "select 1 -- value:a\n",
        "select /* value:a\n value:b */ 1",
        "select myvalue:a, value_of:b, `value:a`, `the value`:a",
        "select value.x:a",
    ],
)
def test_everything_else_stays_as_it_is(query: str) -> None:
    assert parsing_json(query) == query
