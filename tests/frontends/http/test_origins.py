"""Which web pages may use the API: names that lead here, pages of other origins, CORS."""

import pytest
from tests.frontends.http.browser import Place, place

from penstock.config.server import HttpSettings
from penstock.errors import InvalidValue
from penstock.model.access import Grant

GROUP = "/v1/topics/orders/groups/billing"
APP = "https://app.example.com"
UPGRADE = {
    "connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}  # fmt: skip

# Names that lead here.


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "LOCALHOST:8080", "localhost.", "penstock.localhost:8080", "127.0.0.1", "127.0.0.1:8080",
        "[::1]", "[::1]:8080", "10.1.2.3:80", "broker.internal", "Broker.Internal:8080", "proxy",
    ],
)  # fmt: skip
async def test_a_server_is_called_by_its_address_or_a_name_that_it_has(host: str) -> None:
    settings = HttpSettings(hosts="proxy, other.example.com")
    async with place(settings=settings, host="broker.internal") as http:
        answer = await http.ask("GET", "/v1/topics", headers={"host": host})

        assert answer.status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example.com",
        "evil.example.com:8080",
        "localhost.evil.com",
        "127.0.0.1.evil.com",
        "[::1].evil.com:1",
        "::1]:1",
        "a",
    ],
)
async def test_a_page_whose_name_was_made_to_lead_here_is_refused(http: Place, host: str) -> None:
    asked = [
        await http.ask("GET", "/v1/topics", headers={"host": host}),
        await http.ask("POST", f"{GROUP}/receive", {}, {"host": host, "origin": f"http://{host}"}),
        await http.ask("GET", f"{GROUP}/ws", headers={"host": host, "origin": f"http://{host}", **UPGRADE}),
        await http.ask("GET", "/metrics", headers={"host": host}),
    ]

    assert [(answer.status, answer.code) for answer in asked] == [(421, "HOST_NOT_ALLOWED")] * 4
    assert (await http.ask("GET", "/health", headers={"host": host})).status == 200  # That tells nothing.


async def test_a_program_of_old_needs_to_name_no_host(http: Place) -> None:
    browser = await http.browser()
    browser.send(b"GET /v1/topics HTTP/1.0\r\n\r\n")

    assert (await browser.hear()).status == 200


async def test_where_a_key_is_asked_for_the_name_does_not_matter() -> None:
    async with place(authentication=True) as http:
        made = await http.broker.create_key("mine", [Grant(role="reader")])
        header = {"authorization": f"Bearer {made.key}", "host": "any.example.com"}

        assert (await http.ask("GET", "/v1/topics", headers=header)).status == 200


async def test_the_hosts_that_are_remembered_are_bounded(http: Place) -> None:
    browser = await http.browser()
    for number in range(1100):
        await browser.ask("GET", "/v1/stats", headers={"host": f"10.0.{number // 250}.{number % 250}"})

    assert len(http.listener.shared.origins._known) == 1000


# Pages of other origins.


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example.com"},
        {"origin": "null"},
        {"origin": "http://localhost:9999"},
        {"origin": "https://evil.example.com", "sec-fetch-site": "cross-site"},
        {"origin": "http://other.localhost", "sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
    ],
)
async def test_a_page_of_another_origin_takes_and_changes_nothing(
    http: Place, headers: dict[str, str]
) -> None:
    await http.broker.publish("orders", b"x")
    untyped = b'{"text": "from a form"}'  # Such a request is sent without asking whether it may be.
    asked = [
        await http.ask("POST", "/v1/topics/orders/publish", untyped, headers),
        await http.ask("POST", f"{GROUP}/receive", headers=headers),
        await http.ask("GET", f"{GROUP}/stream", headers=headers),
        await http.ask("GET", f"{GROUP}/ws", headers=headers | UPGRADE),
        await http.ask("DELETE", "/v1/topics/orders", headers=headers),
    ]

    assert [(answer.status, answer.code) for answer in asked] == [(403, "ORIGIN_NOT_ALLOWED")] * 5
    assert await http.broker.depth("orders") == 1
    assert not http.listener.shared.consumers._by_number


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://localhost", "host": "localhost"},
        {"origin": "http://LOCALHOST:8080", "host": "localhost:8080"},
        {"origin": "https://public.example.com", "sec-fetch-site": "same-origin"},  # Through a proxy.
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-origin"},
    ],
)
async def test_programs_and_pages_of_the_server_itself_are_served(
    http: Place, headers: dict[str, str]
) -> None:
    answer = await http.ask("POST", "/v1/topics/orders/publish", {"text": "a"}, headers)

    assert answer.status == 200
    assert "access-control-allow-origin" not in answer.headers


async def test_a_link_on_another_page_may_lead_here(http: Place) -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}

    assert (await http.ask("GET", "/v1/topics", headers=link)).status == 200


# CORS.


async def test_without_a_setting_no_page_is_told_that_it_may(http: Place) -> None:
    asking = {"origin": APP, "access-control-request-method": "POST"}

    answer = await http.ask("OPTIONS", "/v1/topics/orders/publish", headers=asking)

    assert (answer.status, answer.code) == (405, "METHOD_NOT_ALLOWED")
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("origins", [APP, f"http://localhost:3000, {APP.upper()}", "*"])
async def test_a_page_of_an_origin_that_is_set_asks_is_served_and_may_read(origins: str) -> None:
    async with place(settings=HttpSettings(cors_origins=origins), authentication=True) as http:
        made = await http.broker.create_key("mine", [Grant(role="admin")])
        asking = {
            "origin": APP,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization, content-type, idempotency-key",
        }
        page = {"origin": APP, "sec-fetch-site": "cross-site", "authorization": f"Bearer {made.key}"}

        asked = await http.ask("OPTIONS", "/v1/topics/orders/publish", headers=asking)
        done = await http.ask("POST", "/v1/topics/orders/publish", {"text": "a"}, page)
        refused = await http.ask("GET", "/v1/topics/nothing", headers=page)
        opened = await http.ask("GET", f"{GROUP}/ws", headers=page | UPGRADE)

        assert (asked.status, done.status, refused.code, opened.status) == (200, 200, "TOPIC_NOT_FOUND", 101)
        for answer in (asked, done, refused):
            assert answer.headers["access-control-allow-origin"] in (APP, "*")
            assert "access-control-allow-credentials" not in answer.headers  # No cookies.


async def test_a_page_of_an_origin_that_is_not_set_is_refused_where_others_are() -> None:
    async with place(settings=HttpSettings(cors_origins=APP)) as http:
        foreign = {"origin": "https://app.example.com.evil.com"}

        asked = await http.ask(
            "OPTIONS", "/v1/topics", headers=foreign | {"access-control-request-method": "POST"}
        )
        done = await http.ask("POST", "/v1/topics", {"name": "a"}, foreign)

        assert (asked.status, done.code) == (400, "ORIGIN_NOT_ALLOWED")
        assert "access-control-allow-origin" not in asked.headers | done.headers


@pytest.mark.parametrize("origins", ["app.example.com", "https://a.com/", "ftp://a", "https://", "null"])
def test_what_is_no_origin_is_not_taken_for_one(origins: str) -> None:
    with pytest.raises(InvalidValue, match="SCHEME://HOST"):
        HttpSettings(cors_origins=f"{APP}, {origins}")


@pytest.mark.parametrize("hosts", ["http://broker", "broker:8080", "a b", "*"])
def test_what_is_no_name_is_not_taken_for_one(hosts: str) -> None:
    with pytest.raises(InvalidValue, match="write names"):
        HttpSettings(hosts=hosts)
