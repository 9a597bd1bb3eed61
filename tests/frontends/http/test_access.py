"""API keys and users over HTTP."""

import asyncio
import threading
from typing import Any

import pytest
from tests.frontends.http.browser import PATIENCE_S, Place, place

from penstock.broker.access import access
from penstock.model.access import Grant

GRANTS = [{"role": "producer", "topics": ["orders*"]}]


async def test_a_key_is_made_used_and_revoked() -> None:
    async with place(authentication=True) as http:
        first = await http.broker.create_key("first", [Grant(role="admin")])
        admin = {"authorization": f"Bearer {first.key}"}

        body = {"name": "shop", "grants": GRANTS, "quota": {"connections": 2}}
        made = await http.ask("POST", "/v1/keys", body, admin)
        shop = {"authorization": f"Bearer {made.json['key']}"}
        listed = await http.ask("GET", "/v1/keys", None, admin)
        used = await http.ask("POST", "/v1/topics/orders/publish", {"text": "x"}, shop)
        forbidden = await http.ask("GET", "/v1/keys", None, shop)
        revoked = await http.ask("DELETE", f"/v1/keys/{made.json['id']}", None, admin)
        after = await http.ask("POST", "/v1/topics/orders/publish", {"text": "x"}, shop)
        again = await http.ask("DELETE", f"/v1/keys/{made.json['id']}", None, admin)

    assert (made.status, used.status, revoked.status) == (201, 200, 204)
    assert [key["name"] for key in listed.json["keys"]] == ["first", "shop"]
    assert listed.json["keys"][1]["grants"] == [{**GRANTS[0], "groups": ["*"]}]
    assert made.json["key"] not in str(listed.json)
    assert (forbidden.code, after.code, again.code) == ("FORBIDDEN", "UNAUTHENTICATED", "IDENTITY_NOT_FOUND")


async def test_a_user_is_set_listed_and_deleted() -> None:
    async with place() as http:
        body = {"password": "correct horse", "grants": GRANTS}
        done = await http.ask("PUT", "/v1/users/anna", body)
        listed = await http.ask("GET", "/v1/users")
        deleted = await http.ask("DELETE", "/v1/users/anna")

    assert (done.status, deleted.status) == (204, 204)
    assert [user["name"] for user in listed.json["users"]] == ["anna"]
    assert "correct" not in str(listed.json)


@pytest.mark.parametrize(
    ("grants", "words"),
    [
        ([], "1 to 1000"),
        ([{"role": "king"}], "king"),
        ([{"role": "reader", "topics": ["a*b"]}], "topics"),
        ("reader", "array"),
    ],
)
async def test_a_grant_that_means_nothing_is_a_problem(grants: Any, words: str) -> None:
    async with place() as http:
        answer = await http.ask("POST", "/v1/keys", {"name": "shop", "grants": grants})

    assert answer.status == 400
    assert words in str(answer.json)


async def test_a_password_is_not_repeated_in_its_problem() -> None:
    async with place() as http:
        answer = await http.ask("PUT", "/v1/users/anna", {"password": "short", "grants": GRANTS})

    assert (answer.status, "short" in str(answer.json)) == (400, False)


@pytest.mark.parametrize("path", ["set_user", "create_key"])
async def test_a_hash_that_is_slow_keeps_nobody_waiting(
    http: Place, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    hashing, done = threading.Event(), threading.Event()
    digest = access._digest

    def slow_digest(secret: str, salt: bytes, cost: int) -> bytes:
        hashing.set()
        done.wait(PATIENCE_S)
        return digest(secret, salt, 2)

    monkeypatch.setattr(access, "_digest", slow_digest)
    grants = [{"role": "reader"}]
    if path == "set_user":
        asking = http.ask("PUT", "/v1/users/anna", {"password": "correct horse", "grants": grants})
    else:
        asking = http.ask("POST", "/v1/keys", {"name": "shop", "grants": grants})
    asked = asyncio.ensure_future(asking)
    await asyncio.to_thread(hashing.wait, PATIENCE_S)

    published = await http.ask("POST", "/v1/topics/orders/publish", {"text": "a"})
    waited = not asked.done()
    done.set()

    assert (published.status, waited) == (200, True)
    assert (await asked).status in (201, 204)
