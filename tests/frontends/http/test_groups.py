"""Groups, dead letters and schedules over HTTP."""

from typing import get_type_hints

import pytest
from tests.frontends.http.browser import Place

from penstock.config import broker as config
from penstock.frontends.http.handlers.groups import GroupOptions

GROUP = "/v1/topics/orders/groups/billing"


async def test_a_group_is_made_listed_moved_and_deleted(http: Place) -> None:
    for number in range(4):
        await http.broker.publish("orders", b"%d" % number, partition=0)

    made = await http.ask("PUT", GROUP, {"max_attempts": 2, "backoff": ["1s", 5], "start": "earliest"})
    listed = await http.ask("GET", "/v1/topics/orders/groups")
    moved = await http.ask("POST", f"{GROUP}/seek", {"to": 3, "partition": 0})
    described = await http.ask("GET", GROUP)
    deleted = await http.ask("DELETE", GROUP)

    assert (made.status, made.json["lag"], made.json["verdict"]["word"]) == (200, 4, "no consumers")
    assert [group["group"] for group in listed.json["groups"]] == ["billing"]
    assert moved.json["lag"] == described.json["lag"] == 1
    assert (deleted.status, (await http.ask("GET", GROUP)).code) == (204, "GROUP_NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("PUT", GROUP, {"max_attempts": 0}, "VALUE_INVALID"),
        ("PUT", GROUP, {"attempts": 1}, "REQUEST_INVALID"),
        ("PUT", GROUP, {"start": "soon"}, "VALUE_INVALID"),
        ("PUT", "/v1/topics/nothing/groups/billing", {}, "TOPIC_NOT_FOUND"),
        ("PUT", "/v1/topics/orders/groups/__x", {}, "NAME_INVALID"),
        ("POST", f"{GROUP}/seek", {"to": "latest"}, "GROUP_NOT_FOUND"),
        ("POST", f"{GROUP}/seek", {}, "REQUEST_INVALID"),
        ("DELETE", GROUP, None, "GROUP_NOT_FOUND"),
        ("GET", "/v1/topics/nothing/groups", None, "TOPIC_NOT_FOUND"),
    ],
)
async def test_what_cannot_be_done_to_a_group_is_told(
    http: Place, method: str, path: str, body: object, code: str
) -> None:
    assert (await http.ask(method, path, body)).code == code


def test_every_option_of_a_group_can_be_given() -> None:
    assert list(GroupOptions.__struct_fields__) == list(get_type_hints(config.GroupOptions))


async def test_dead_letters_are_counted_listed_and_redriven(http: Place) -> None:
    for text in (b"one", b"two"):
        await http.broker.publish("orders", text)
    async with await http.broker.consumer("orders", group="billing") as consumer:
        for message in await consumer.receive(10):
            await message.reject("no price")

    errors = await http.ask("GET", "/v1/dead-letters?topic=orders")
    listed = await http.ask("GET", "/v1/topics/orders/dead-letters?as=text&limit=1")
    rehearsed = await http.ask("POST", "/v1/topics/orders/dead-letters/redrive", {"dry_run": True})
    redriven = await http.ask("POST", "/v1/topics/orders/dead-letters/redrive", {"limit": 1})

    [error] = errors.json["errors"]
    [letter] = listed.json["dead_letters"]
    assert (error["count"], error["groups"], error["reason"]) == (2, ["billing"], "rejected")
    assert (letter["error"], letter["fingerprint"], letter["group"]) == (
        "no price",
        error["fingerprint"],
        "billing",
    )
    assert letter["message"]["text"] in ("one", "two")
    assert rehearsed.json == {"matched": 2, "redriven": 0, "dry_run": True}
    assert redriven.json["redriven"] == 1
    assert (await http.ask("GET", "/v1/dead-letters")).json["errors"][0]["count"] == 1


async def bury(http: Place) -> None:
    """Put three messages into orders.dlq: a dead letter of orders, one of bills, and one that is none."""
    await http.broker.create_topic("bills", dead_letter_topic="orders.dlq")
    for topic in ("orders", "bills"):
        await http.broker.publish(topic, b"x", partition=0)
        async with await http.broker.consumer(topic, group="billing") as consumer:
            await (await consumer.receive())[0].reject("no price")
    await http.broker.publish("orders.dlq", b"none", partition=0)


async def test_a_dead_letter_is_shown_by_its_id_also_after_it_went_back(http: Place) -> None:
    await bury(http)
    [listed] = (await http.ask("GET", "/v1/topics/orders/dead-letters")).json["dead_letters"]
    path = f"/v1/topics/orders/dead-letters/{listed['message']['id']}"

    before = await http.ask("GET", path)
    await http.broker.redrive("orders")
    after = await http.ask("GET", f"{path}?as=text")

    assert before.json == listed
    assert (after.status, after.json["message"]["text"], after.json["error"]) == (200, "x", "no price")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("orders.dlq:0:1", "DEAD_LETTER_NOT_FOUND"),  # Of bills.
        ("orders.dlq:0:2", "DEAD_LETTER_NOT_FOUND"),  # Somebody's own message.
        ("orders.dlq:0:3", "DEAD_LETTER_NOT_FOUND"),
        ("orders.dlq:7:0", "DEAD_LETTER_NOT_FOUND"),
        ("orders:0:0", "DEAD_LETTER_NOT_FOUND"),
        ("x", "VALUE_INVALID"),
        ("orders.dlq:0:-1", "VALUE_INVALID"),
    ],
)
async def test_what_is_no_dead_letter_of_the_topic_is_not_shown(http: Place, name: str, code: str) -> None:
    await bury(http)

    assert (await http.ask("GET", f"/v1/topics/orders/dead-letters/{name}")).code == code
    assert (await http.ask("GET", "/v1/topics/other/dead-letters/orders.dlq:0:0")).code == "TOPIC_NOT_FOUND"


async def test_schedules_are_listed_moved_and_cancelled(http: Place) -> None:
    receipt = await http.broker.publish("orders", b"later", key="k", delay="1h")
    assert receipt.schedule_id is not None

    listed = await http.ask("GET", "/v1/topics/orders/schedules?as=text")
    moved = await http.ask("PATCH", f"/v1/schedules/{receipt.schedule_id}", {"delay": "2h"})
    cancelled = await http.ask("DELETE", f"/v1/schedules/{receipt.schedule_id}")
    again = await http.ask("DELETE", f"/v1/schedules/{receipt.schedule_id}")

    [waiting] = listed.json["schedules"]
    assert (waiting["id"], waiting["key"], waiting["text"]) == (receipt.schedule_id, "k", "later")
    assert moved.json == {"rescheduled": True}
    assert (cancelled.json, again.status) == ({"outcome": "cancelled"}, 200)
    assert await http.broker.scheduled_count("orders") == 0


async def test_a_message_can_recur(http: Place) -> None:
    body = {"text": "good morning", "cron": "0 8 * * 1", "timezone": "Europe/Berlin"}

    made = await http.ask("POST", "/v1/topics/orders/schedules", body)
    wrong = await http.ask("POST", "/v1/topics/orders/schedules", {**body, "cron": "now and then"})

    [waiting] = await http.broker.scheduled("orders")
    assert (made.status, made.json) == (201, {"id": waiting.id})
    assert (waiting.cron, waiting.timezone) == ("0 8 * * 1", "Europe/Berlin")
    assert wrong.code == "VALUE_INVALID"


async def test_a_schedule_that_is_sent_twice_under_one_idempotency_key_is_made_once(http: Place) -> None:
    body = {"text": "good morning", "cron": "0 8 * * 1"}
    key = {"idempotency-key": "mondays"}
    await http.broker.publish("orders", b"x", dedup_id="taken")

    made = [await http.ask("POST", "/v1/topics/orders/schedules", body, headers=key) for _ in range(2)]
    own = await http.ask("POST", "/v1/topics/orders/schedules", {**body, "dedup_id": "mondays"})
    other = await http.ask("POST", "/v1/topics/orders/schedules", body)
    taken = await http.ask("POST", "/v1/topics/orders/schedules", {**body, "dedup_id": "taken"})

    assert made[0].json == made[1].json == own.json != other.json
    assert await http.broker.scheduled_count("orders") == 2
    assert (taken.status, taken.code) == (400, "VALUE_INVALID")


@pytest.mark.parametrize("name", ["x", "orders:0:s99", "nothing:0:s1", "orders:9:s0", "orders:0:0"])
async def test_a_schedule_that_is_not_there_harms_nobody(http: Place, name: str) -> None:
    cancelled = await http.ask("DELETE", f"/v1/schedules/{name}")
    moved = await http.ask("PATCH", f"/v1/schedules/{name}", {"delay": "1m"})

    assert cancelled.status < 500
    assert moved.status < 500
