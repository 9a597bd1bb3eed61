"""Logins of browsers: the cookie, its guard, and its end."""

from collections.abc import AsyncIterator

import pytest
from tests.frontends.http.browser import Answer, Place, place

from penstock.frontends.http import browsers
from penstock.model.access import Grant

GUARD = "x-penstock-guard"
SESSION = "/ui/session"
ADA = {"user": "ada", "password": "correct horse battery"}


pytestmark = pytest.mark.usefixtures("quick_hashes")


@pytest.fixture
async def secured() -> AsyncIterator[Place]:
    async with place(authentication=True) as made:
        await made.broker.set_user("ada", "correct horse battery", [Grant(role="admin")])
        yield made


async def log_in(http: Place, shown: dict[str, str] = ADA) -> Answer:
    return await http.ask("POST", SESSION, shown, {GUARD: "login"})


def cookie_of(answer: Answer) -> dict[str, str]:
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


async def test_where_nobody_is_asked_there_is_nothing_to_log_in_to(http: Place) -> None:
    assert (await http.ask("GET", SESSION)).json == {
        "required": False, "kind": "nobody", "name": "", "guard": None, "cluster": False,
    }  # fmt: skip
    assert "set-cookie" not in (await log_in(http)).headers


async def test_a_login_is_a_cookie_that_scripts_and_other_sites_do_not_get(secured: Place) -> None:
    answer = await log_in(secured)

    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert len(cookie) > len("penstock=") + 40
    assert set(attributes) == {"Path=/", "HttpOnly", "SameSite=Strict"}
    assert (answer.json["kind"], answer.json["name"]) == ("user", "ada")
    assert (await secured.ask("GET", "/v1/topics", headers=cookie_of(answer))).json == {"topics": ["orders"]}


def test_a_login_that_was_encrypted_is_never_sent_in_the_clear() -> None:
    assert b"; Secure" in browsers._cookie("x", secure=True)[1]


async def test_a_key_is_a_login_too(secured: Place) -> None:
    made = await secured.broker.create_key("dashboard", [Grant(role="reader")])

    answer = await log_in(secured, {"key": made.key})

    assert (answer.json["kind"], answer.json["name"]) == ("key", "dashboard")
    told = await secured.ask("GET", SESSION, headers=cookie_of(answer))
    assert told.json == answer.json


async def test_a_wrong_password_is_no_login(secured: Place) -> None:
    answer = await log_in(secured, {"user": "ada", "password": "something else"})

    assert answer.code == "UNAUTHENTICATED"
    assert "set-cookie" not in answer.headers
    assert (await secured.ask("GET", SESSION)).json["name"] == ""


async def test_a_page_of_another_site_cannot_log_anybody_in(secured: Place) -> None:
    """It could send a form, but no header of ours."""
    assert (await secured.ask("POST", SESSION, ADA)).code == "UNAUTHENTICATED"


@pytest.mark.parametrize("shown", [None, "", "wrong", "\xff"])
async def test_nothing_is_changed_by_the_cookie_alone(secured: Place, shown: str | None) -> None:
    answer = await log_in(secured)
    headers = cookie_of(answer) | ({} if shown is None else {GUARD: shown})

    for method, path, body in (
        ("POST", "/v1/topics", {"name": "bills"}),
        ("DELETE", "/v1/topics/orders", None),
        ("PUT", "/v1/topics/orders/groups/billing", {}),
        ("PATCH", "/v1/topics/orders", {}),
        ("DELETE", SESSION, None),
    ):
        assert (await secured.ask(method, path, body, headers)).code == "UNAUTHENTICATED"
    assert await secured.broker.topics() == ["orders"]


async def test_with_the_guard_a_page_may_do_what_the_user_may(secured: Place) -> None:
    answer = await log_in(secured)
    headers = cookie_of(answer) | {GUARD: answer.json["guard"]}

    assert (await secured.ask("POST", "/v1/topics", {"name": "bills"}, headers)).status == 201


async def test_the_guard_of_another_session_is_none(secured: Place) -> None:
    mine, other = await log_in(secured), await log_in(secured)
    headers = cookie_of(mine) | {GUARD: other.json["guard"]}

    assert (await secured.ask("POST", "/v1/topics", {"name": "bills"}, headers)).code == "UNAUTHENTICATED"


async def test_a_logout_ends_the_session(secured: Place) -> None:
    answer = await log_in(secured)
    headers = cookie_of(answer) | {GUARD: answer.json["guard"]}

    out = await secured.ask("DELETE", SESSION, None, headers)

    assert (out.status, "Max-Age=0" in out.headers["set-cookie"]) == (204, True)
    assert (await secured.ask("GET", "/v1/topics", headers=headers)).code == "UNAUTHENTICATED"


async def test_a_session_ends_with_its_user(secured: Place) -> None:
    answer = await log_in(secured)

    await secured.broker.delete_user("ada")

    assert (await secured.ask("GET", "/v1/topics", headers=cookie_of(answer))).code == "UNAUTHENTICATED"
    assert (await secured.ask("GET", SESSION, headers=cookie_of(answer))).code == "UNAUTHENTICATED"


@pytest.mark.parametrize("cookie", ["penstock=x", "penstock=", "a;b=;;=", "penstock=\xff", "other=1"])
async def test_any_other_cookie_is_no_login(secured: Place, cookie: str) -> None:
    assert (await secured.ask("GET", "/v1/topics", headers={"cookie": cookie})).code == "UNAUTHENTICATED"
