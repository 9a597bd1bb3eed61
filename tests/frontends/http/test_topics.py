"""Topics over HTTP."""

from typing import get_type_hints

import pytest
from tests.frontends.http.browser import Place

from penstock.config import broker as config
from penstock.frontends.http.handlers.topics import TopicOptions


async def test_a_topic_is_made_listed_described_altered_and_deleted(http: Place) -> None:
    made = await http.ask("POST", "/v1/topics", {"name": "bills", "options": {"partitions": 3, "ttl": "1h"}})
    listed = await http.ask("GET", "/v1/topics")
    altered = await http.ask("PATCH", "/v1/topics/bills", {"ttl": None, "retention": 60})
    described = await http.ask("GET", "/v1/topics/bills")
    partitions = await http.ask("GET", "/v1/topics/bills/partitions")
    deleted = await http.ask("DELETE", "/v1/topics/bills")

    assert (made.status, made.json["settings"]["partitions"], made.json["settings"]["ttl_ms"]) == (
        201,
        3,
        3_600_000,
    )
    assert listed.json == {"topics": ["bills", "orders"]}
    assert (altered.status, altered.json["settings"]["retention_ms"]) == (200, 60_000)
    assert described.json["settings"]["ttl_ms"] is None
    assert [each["partition"] for each in partitions.json["partitions"]] == [0, 1, 2]
    assert (deleted.status, deleted.body) == (204, b"")
    assert await http.broker.topics() == ["orders"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/v1/topics", {"name": "orders"}, 409, "TOPIC_EXISTS"),
        ("POST", "/v1/topics", {"name": "a/b"}, 400, "NAME_INVALID"),
        ("POST", "/v1/topics", {"name": "x", "options": {"partitions": 0}}, 400, "VALUE_INVALID"),
        ("POST", "/v1/topics", {"name": "x", "options": {"partition": 1}}, 400, "REQUEST_INVALID"),
        ("POST", "/v1/topics", {"name": "x", "options": {"durability": "hope"}}, 400, "REQUEST_INVALID"),
        ("POST", "/v1/topics", {}, 400, "REQUEST_INVALID"),
        ("PATCH", "/v1/topics/orders", {"partitions": 1}, 400, "VALUE_INVALID"),
        ("PATCH", "/v1/topics/nothing", {"ttl": "1h"}, 404, "TOPIC_NOT_FOUND"),
        ("GET", "/v1/topics/nothing", None, 404, "TOPIC_NOT_FOUND"),
        ("GET", "/v1/topics/nothing/partitions", None, 404, "TOPIC_NOT_FOUND"),
        ("DELETE", "/v1/topics/nothing", None, 404, "TOPIC_NOT_FOUND"),
    ],
)
async def test_what_cannot_be_done_to_a_topic_is_told(
    http: Place, method: str, path: str, body: object, status: int, code: str
) -> None:
    answer = await http.ask(method, path, body)

    assert (answer.status, answer.code) == (status, code)


def test_every_option_of_a_topic_can_be_given() -> None:
    assert list(TopicOptions.__struct_fields__) == list(get_type_hints(config.TopicOptions))
