"""Messages on loan over HTTP: received, answered for by receipts, waited for, lost."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.frontends.http.browser import PATIENCE_S, Answer, Place, place

from penstock.model.access import Grant, Quota
from penstock.testing import AsyncTestBroker

GROUP = "/v1/topics/orders/groups/billing"


@pytest.fixture
async def timed() -> AsyncIterator[tuple[Place, AsyncTestBroker]]:
    """The listener over a broker in virtual time."""
    broker = await AsyncTestBroker.open()
    async with place(broker=broker) as made:
        yield made, broker


async def fill(http: Place, count: int, **options: Any) -> None:
    for number in range(count):
        await http.broker.publish("orders", b"%d" % number, partition=0, **options)


async def receive(http: Place, **wanted: Any) -> list[dict[str, Any]]:
    answer = await http.ask("POST", f"{GROUP}/receive", {"as": "text", **wanted})
    assert answer.status == 200, answer.body
    return list(answer.json["messages"])


async def answer_for(http: Place, verb: str, body: dict[str, Any]) -> Answer:
    return await http.ask("POST", f"{GROUP}/{verb}", body)


def receipts(messages: list[dict[str, Any]]) -> list[str]:
    return [message["receipt"] for message in messages]


async def test_messages_are_received_with_all_they_have_and_acked(http: Place) -> None:
    await http.broker.publish("orders", b"hi", key="k", headers={"a": "b"}, priority="high", partition=1)

    [message] = await receive(http)
    acked = await answer_for(http, "ack", {"receipt": message["receipt"]})

    assert (message["id"], message["key"], message["text"], message["attempt"]) == (
        "orders:1:0",
        "k",
        "hi",
        1,
    )
    assert (message["headers"]["a"], message["priority"]) == ("b", "high")
    assert (acked.status, acked.json["results"][0]["ok"]) == (200, True)
    assert (await http.broker.describe_group("orders", "billing")).lag == 0


async def test_a_receive_without_a_body_takes_one_message(http: Place) -> None:
    await fill(http, 2)

    answer = await http.ask("POST", f"{GROUP}/receive")

    assert [message["value"] for message in answer.json["messages"]] == ["MA=="]


async def test_many_are_received_and_acked_at_once(http: Place) -> None:
    await fill(http, 100)

    messages = await receive(http, max_messages=100)
    answer = await answer_for(http, "ack", {"receipts": receipts(messages)})

    assert [message["text"] for message in messages] == [str(number) for number in range(100)]
    assert [result["ok"] for result in answer.json["results"]] == [True] * 100
    info = await http.broker.describe_group("orders", "billing")
    assert (info.lag, info.acked, info.in_flight) == (0, 100, 0)


async def test_each_receipt_of_many_has_its_own_result(http: Place) -> None:
    await fill(http, 4)
    messages = await receive(http, max_messages=4)
    await answer_for(http, "ack", {"receipt": messages[1]["receipt"]})

    shown = [*receipts(messages), "none", messages[0]["receipt"]]
    answer = await answer_for(http, "ack", {"receipts": shown})

    told = [
        (result["ok"], result["problem"] and result["problem"]["code"]) for result in answer.json["results"]
    ]
    assert told == [
        (True, None),
        (False, "ALREADY_SETTLED"),
        (True, None),
        (True, None),
        (False, "RECEIPT_UNKNOWN"),
    ]
    assert (await http.broker.describe_group("orders", "billing")).lag == 0


async def test_a_nacked_message_comes_again_and_a_rejected_one_is_a_dead_letter(http: Place) -> None:
    await fill(http, 2)
    first, second = await receive(http, max_messages=2)

    nacked = await answer_for(http, "nack", {"receipt": first["receipt"], "delay": 0, "error": "no price"})
    rejected = await answer_for(http, "reject", {"receipts": [second["receipt"]], "reason": "no good"})

    [again] = await receive(http, max_messages=2)
    assert (nacked.status, rejected.status) == (200, 200)
    assert (again["id"], again["attempt"]) == (first["id"], 2)
    assert [letter.error for letter in await http.broker.dead_letters("orders")] == ["no good"]


async def test_a_late_answer_is_gone_and_an_unknown_receipt_is_not_found(
    timed: tuple[Place, AsyncTestBroker],
) -> None:
    http, broker = timed
    await fill(http, 1)
    [message] = await receive(http, visibility="10s")
    await broker.advance("11s")

    late = await answer_for(http, "ack", {"receipt": message["receipt"]})
    guessed = message["receipt"][:-4] + ("AAAA" if not message["receipt"].endswith("AAAA") else "BBBB")
    unknown = [
        await answer_for(http, "ack", {"receipt": text}) for text in ("", "x", "ü", "a" * 9999, guessed)
    ]

    assert (late.status, late.code) == (410, "LEASE_LOST")
    assert [(answer.status, answer.code) for answer in unknown] == [(404, "RECEIPT_UNKNOWN")] * 5


@pytest.mark.parametrize(
    ("verb", "body"),
    [("ack", {}), ("nack", {}), ("reject", {"reason": "x"}), ("extend", {"duration": "1m"})],
)
async def test_every_answer_knows_a_receipt_that_is_used_up(
    http: Place, verb: str, body: dict[str, Any]
) -> None:
    await fill(http, 1)
    [message] = await receive(http)
    await answer_for(http, "ack", {"receipt": message["receipt"]})

    answer = await answer_for(http, verb, {"receipt": message["receipt"], **body})

    assert (answer.status, answer.code in ("ALREADY_SETTLED", "LEASE_LOST")) == (410, True)


async def test_an_extended_message_stays_on_loan(timed: tuple[Place, AsyncTestBroker]) -> None:
    http, broker = timed
    await fill(http, 1)
    [message] = await receive(http, visibility="10s")

    extended = await answer_for(http, "extend", {"receipt": message["receipt"], "duration": "60s"})
    await broker.advance("50s")

    assert extended.status == 200
    assert await receive(http) == []
    assert (await answer_for(http, "ack", {"receipt": message["receipt"]})).status == 200


async def test_a_receipt_is_for_its_group_and_its_owner_alone() -> None:
    async with place(authentication=True) as http:
        await fill(http, 1)
        keys = [await http.broker.create_key(name, [Grant(role="consumer")]) for name in ("ada", "bob")]
        ada, bob = ({"authorization": f"Bearer {key.key}"} for key in keys)
        [message] = (await http.ask("POST", f"{GROUP}/receive", {}, ada)).json["messages"]
        body = {"receipt": message["receipt"]}

        stolen = await http.ask("POST", f"{GROUP}/ack", body, bob)
        elsewhere = await http.ask("POST", "/v1/topics/orders/groups/other/ack", body, ada)
        own = await http.ask("POST", f"{GROUP}/ack", body, ada)

        assert (stolen.code, elsewhere.code, own.status) == ("RECEIPT_UNKNOWN", "RECEIPT_UNKNOWN", 200)


async def test_a_receive_waits_for_a_message(http: Place) -> None:
    browser = await http.browser()
    waiting = asyncio.ensure_future(browser.ask("POST", f"{GROUP}/receive", {"wait": "60s", "as": "text"}))
    await asyncio.wait([waiting], timeout=0.05)
    assert not waiting.done()

    await fill(http, 1)

    assert [message["text"] for message in (await waiting).json["messages"]] == ["0"]


async def test_a_wait_ends_with_nothing(timed: tuple[Place, AsyncTestBroker]) -> None:
    http, broker = timed
    waiting = asyncio.ensure_future(receive(http, wait="20s"))
    while not http.listener.shared.consumers._waits:
        await http.turn()

    await broker.advance("21s")

    assert await waiting == []


async def test_nothing_is_taken_for_a_client_that_has_left(http: Place) -> None:
    consumers = http.listener.shared.consumers
    browser = await http.browser()
    waiting = asyncio.ensure_future(browser.ask("POST", f"{GROUP}/receive", {"wait": 60}))
    while not consumers._waits:
        await http.turn()
    waiting.cancel()
    await browser.close()
    while consumers._waits:
        await http.turn()

    await fill(http, 1)

    assert (await http.broker.describe_group("orders", "billing")).in_flight == 0
    assert len(await receive(http)) == 1


async def test_the_end_of_the_server_ends_waits_and_gives_back_what_is_held(http: Place) -> None:
    await fill(http, 1)
    [_] = await receive(http)
    waiting = asyncio.ensure_future(receive(http, wait=60))
    while not http.listener.shared.consumers._waits:
        await http.turn()

    await asyncio.wait_for(http.listener.drain(), 5)

    assert await waiting == []
    info = await http.broker.describe_group("orders", "billing")
    assert (info.in_flight, info.consumers) == (0, [])


async def test_requests_share_a_consumer_which_is_closed_when_nobody_needs_it(http: Place) -> None:
    consumers = http.listener.shared.consumers
    await fill(http, 2)
    first = await receive(http)
    second = await receive(http)
    assert (await http.broker.describe_group("orders", "billing")).consumers == ["http-1"]

    for _ in range(3):
        consumers.sweep()
    held = await http.broker.describe_group("orders", "billing")
    await answer_for(http, "ack", {"receipts": receipts(first + second)})
    consumers.sweep()
    consumers.sweep()

    assert held.in_flight == 2
    assert (await http.broker.describe_group("orders", "billing")).consumers == []
    late = await answer_for(http, "ack", {"receipt": first[0]["receipt"]})
    assert late.code == "LEASE_LOST"


async def test_a_message_of_at_most_once_has_no_receipt(http: Place) -> None:
    await http.broker.create_group("orders", "billing", delivery="at-most-once")
    await fill(http, 1)

    [message] = await receive(http)

    assert message["receipt"] is None
    assert (await http.broker.describe_group("orders", "billing")).lag == 0


async def test_a_stream_group_is_not_received_from(http: Place) -> None:
    await http.broker.create_group("orders", "billing", kind="stream")

    answer = await http.ask("POST", f"{GROUP}/receive", {})

    assert (answer.status, answer.code) == (409, "GROUP_KIND_MISMATCH")
    assert (await http.broker.describe_group("orders", "billing")).consumers == []


@pytest.mark.parametrize(
    ("verb", "body", "code"),
    [
        ("receive", {"wait": "61s"}, "VALUE_INVALID"),
        ("receive", {"wait": "soon"}, "VALUE_INVALID"),
        ("receive", {"max_messages": 0}, "REQUEST_INVALID"),
        ("receive", {"max_messages": 1001}, "REQUEST_INVALID"),
        ("receive", {"visibility": "0s"}, "VALUE_INVALID"),
        ("receive", {"visibility": "13h"}, "VALUE_INVALID"),
        ("ack", {}, "REQUEST_INVALID"),
        ("ack", {"receipt": "a", "receipts": []}, "REQUEST_INVALID"),
        ("nack", {"receipts": [], "delay": -1}, "VALUE_INVALID"),
        ("reject", {"receipts": []}, "REQUEST_INVALID"),
        ("extend", {"receipts": [], "duration": "13h"}, "VALUE_INVALID"),
    ],
)
async def test_what_makes_no_sense_is_told_why(
    http: Place, verb: str, body: dict[str, Any], code: str
) -> None:
    assert (await answer_for(http, verb, body)).code == code


async def test_a_topic_that_is_not_there_is_created_by_a_receive(http: Place) -> None:
    answer = await http.ask("POST", "/v1/topics/new/groups/billing/receive", {})

    assert answer.json == {"messages": []}
    assert await http.broker.groups("new") == ["billing"]


async def test_a_group_that_was_deleted_and_made_again_is_received_from(http: Place) -> None:
    await fill(http, 1)
    [before] = await receive(http)
    await http.broker.delete_group("orders", "billing")

    [after] = await receive(http)

    assert (await answer_for(http, "ack", {"receipt": before["receipt"]})).code == "LEASE_LOST"
    assert (await answer_for(http, "ack", {"receipt": after["receipt"]})).status == 200


async def waiting(http: Place, header: dict[str, str]) -> "asyncio.Future[Answer]":
    """A request that waits for a message."""
    consumers = http.listener.shared.consumers
    before = len(consumers._waits)
    asked = asyncio.ensure_future(http.ask("POST", f"{GROUP}/receive", {"wait": 60}, header))
    while len(consumers._waits) == before:
        await http.turn()
    return asked


async def test_a_revoked_key_ends_its_waits_and_gives_back_what_it_holds() -> None:
    async with place(authentication=True) as http:
        made = await http.broker.create_key("mine", [Grant(role="consumer")])
        header = {"authorization": f"Bearer {made.key}"}
        await fill(http, 1)
        await http.ask("POST", f"{GROUP}/receive", {}, header)
        asked = await waiting(http, header)
        assert (await http.broker.describe_group("orders", "billing")).in_flight == 1

        await http.broker.revoke_key(made.id)

        assert (await asked).code == "UNAUTHENTICATED"
        info = await http.broker.describe_group("orders", "billing")
        assert (info.in_flight, info.consumers) == (0, [])


async def test_a_request_that_waits_counts_as_a_connection_of_its_key() -> None:
    async with place(authentication=True) as http:
        made = await http.broker.create_key("mine", [Grant(role="consumer")], quota=Quota(connections=1))
        header = {"authorization": f"Bearer {made.key}"}
        asked = await waiting(http, header)

        one_more = await http.ask("POST", f"{GROUP}/receive", {"wait": 60}, header)
        at_once = await http.ask("POST", f"{GROUP}/receive", {}, header)
        await fill(http, 1)
        await asked
        again = await http.ask("POST", f"{GROUP}/receive", {"wait": "1ms"}, header)

        assert (one_more.status, one_more.code, at_once.status) == (429, "QUOTA_EXCEEDED", 200)
        assert again.status == 200


async def test_a_client_that_was_gone_before_it_could_wait_takes_nothing(
    http: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumers = http.listener.shared.consumers
    found, may_go_on = asyncio.Event(), asyncio.Event()
    find = consumers.find

    async def find_slowly(*arguments: Any) -> Any:
        found.set()
        await may_go_on.wait()
        return await find(*arguments)

    monkeypatch.setattr(consumers, "find", find_slowly)
    browser = await http.browser()
    asked = asyncio.ensure_future(browser.ask("POST", f"{GROUP}/receive", {"wait": 60}))
    await found.wait()
    asked.cancel()
    await browser.close()
    await asyncio.wait_for(http.listener.emptied.wait(), PATIENCE_S)

    may_go_on.set()
    await asyncio.wait(http.listener.state.tasks, timeout=PATIENCE_S)
    await fill(http, 1)

    assert not http.listener.state.tasks
    assert (await http.broker.describe_group("orders", "billing")).in_flight == 0


async def test_consumers_are_limited_for_each_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """One client asks with ever more visibility timeouts, each of which needs a consumer."""
    monkeypatch.setattr("penstock.frontends.consumer_quota.OWN_CONSUMERS_MAX", 2)
    async with place(authentication=True) as http:
        keys = [await http.broker.create_key(name, [Grant(role="consumer")]) for name in ("one", "two")]
        one, two = ({"authorization": f"Bearer {made.key}"} for made in keys)
        bodies = [{"visibility": f"{seconds}s", "wait": "0s"} for seconds in (1, 2, 3)]
        consumers = http.listener.shared.consumers

        async def ask(body: dict[str, str], headers: dict[str, str], group: str = GROUP) -> Answer:
            return await http.ask("POST", f"{group}/receive", body, headers)

        missing = await ask(bodies[0], one, "/v1/topics/missing/groups/g")
        allowed = [await ask(body, one) for body in (*bodies[:2], *bodies[:2])]
        refused = await ask(bodies[2], one)
        others = await ask(bodies[2], two)
        consumers.sweep()
        consumers.sweep()
        left = dict(consumers.quota.counts)
        again = await ask(bodies[2], one)

    assert missing.code == "TOPIC_NOT_FOUND"
    assert [answer.status for answer in (*allowed, others, again)] == [200] * 6
    assert (refused.status, refused.code) == (429, "QUOTA_EXCEEDED")
    assert "retry-after" in refused.headers
    assert left == {}
