"""Who may do what over HTTP: every route for every role."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.frontends.http.browser import Place, place

from penstock.access import Grant
from penstock.frontends.http.call import Route
from penstock.frontends.http.routes import ROUTES
from penstock.frontends.security.guard import NEEDS

ROLES = ("admin", "producer", "consumer", "reader")


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.broker.access.PASSWORD_COST", 2)
    monkeypatch.setattr("penstock.broker.access.KEY_COST", 2)
    monkeypatch.setattr("penstock.frontends.security.logins.PASSWORD_COST", 2)


@pytest.fixture
async def secured() -> AsyncIterator[Place]:
    async with place(authentication=True) as made:
        yield made


async def bearer(http: Place, role: Any, *topics: str) -> dict[str, str]:
    made = await http.broker.create_key(role, [Grant(role=role, topics=topics or ("*",))])
    return {"authorization": f"Bearer {made.key}"}


def basic(text: str) -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


def path_of(route: Route) -> str:
    name = "orders:0:s0" if "schedules" in route.path else "orders:0:0"
    path = route.path.replace("{topic}", "orders").replace("{group}", "billing")
    return path.replace("{id}", name).replace("{user}", "anna")


BODIES: dict[str, Any] = {
    "publish": {"text": "a"},
    "create_topic": {"name": "bills"},
    "seek_group": {"to": "latest"},
    "add_schedule": {"text": "a", "cron": "0 8 * * 1"},
    "reschedule": {"delay": "1m"},
    "publish_batch": {"messages": []},
    "ack": {"receipts": []},
    "nack": {"receipts": []},
    "reject": {"receipts": [], "reason": "no good"},
    "extend": {"receipts": [], "duration": "1m"},
    "create_key": {"name": "shop", "grants": [{"role": "reader"}]},
    "set_user": {"password": "correct horse", "grants": [{"role": "reader"}]},
}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_a_route_does_what_the_role_allows_and_nothing_without_a_login(
    secured: Place, route: Route
) -> None:
    await secured.broker.publish("orders", b"x", partition=0)
    await secured.broker.create_group("orders", "billing")
    body = BODIES.get(route.name, {}) if route.body is not None else None

    stranger = await secured.ask(route.method, path_of(route), body)
    assert stranger.status == (route.status if route.operation is None else 401)
    for role in reversed(ROLES):  # The admin last: that one may delete the topic.
        answer = await secured.ask(route.method, path_of(route), body, await bearer(secured, role))
        if route.operation is None or Grant(role=role).allows(NEEDS[route.operation].action, "orders"):  # type: ignore[arg-type]
            assert answer.status in (route.status, 404)  # A group or topic can be deleted once.
        else:
            assert answer.code == "FORBIDDEN"


async def test_a_stranger_is_told_how_to_log_in(secured: Place) -> None:
    answer = await secured.ask("GET", "/v1/topics")

    assert answer.code == "UNAUTHENTICATED"
    assert answer.headers["www-authenticate"] == 'Bearer realm="penstock"'


async def test_a_user_logs_in_with_name_and_password(secured: Place) -> None:
    await secured.broker.set_user("ada", "correct horse battery", [Grant(role="reader")])

    right = await secured.ask("GET", "/v1/topics", headers=basic("ada:correct horse battery"))
    wrong = await secured.ask("GET", "/v1/topics", headers=basic("ada:something else"))

    assert right.json == {"topics": ["orders"]}
    assert wrong.code == "UNAUTHENTICATED"


@pytest.mark.parametrize("shown", ["Bearer", "Bearer pk_x_y", "Basic !", "Basic //8=", "Digest x", ""])
async def test_what_is_no_login_is_refused(secured: Place, shown: str) -> None:
    answer = await secured.ask("GET", "/v1/topics", headers={"authorization": shown})

    assert (answer.status, answer.code) == (401, "UNAUTHENTICATED")


async def test_topics_of_others_are_neither_listed_nor_described(secured: Place) -> None:
    await secured.broker.create_topic("secret")
    mine = await bearer(secured, "reader", "orders")

    assert (await secured.ask("GET", "/v1/topics", headers=mine)).json == {"topics": ["orders"]}
    assert (await secured.ask("GET", "/v1/topics/secret", headers=mine)).code == "FORBIDDEN"


async def test_a_revoked_key_opens_nothing_on_a_connection_that_is_still_there(secured: Place) -> None:
    made = await secured.broker.create_key("mine", [Grant(role="reader")])
    header = {"authorization": f"Bearer {made.key}"}
    browser = await secured.browser()
    assert (await browser.ask("GET", "/v1/topics", headers=header)).status == 200

    await secured.broker.revoke_key(made.id)

    assert (await browser.ask("GET", "/v1/topics", headers=header)).code == "UNAUTHENTICATED"
