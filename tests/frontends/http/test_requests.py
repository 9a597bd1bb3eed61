"""What every request has in common: errors, limits, hostile input, health, the end."""

import asyncio

import msgspec
import pytest
from scripts.errors_page import error_classes
from starlette.types import Message
from tests.frontends.http.browser import Place, place

from penstock.config.server import LimitSettings
from penstock.errors import PenstockError, QuotaExceeded
from penstock.frontends.http import problems
from penstock.frontends.http.app import make_app
from penstock.frontends.http.routes import ROUTES

PUBLISH = "/v1/topics/orders/publish"


@pytest.mark.parametrize("kind", error_classes())
def test_every_error_has_a_status(kind: type[PenstockError]) -> None:
    status = problems.status(kind.code)

    assert 400 <= status < 600
    assert not kind.retryable or status in (409, 429, 502, 503, 507)


async def test_a_problem_has_the_code_the_sentence_and_what_to_do(http: Place) -> None:
    answer = await http.ask("GET", "/v1/topics/nothing")

    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json == {
        "type": "urn:penstock:error:TOPIC_NOT_FOUND",
        "title": problems.story(problems_class("TOPIC_NOT_FOUND"))[0],
        "status": 404,
        "detail": str(problems_class("TOPIC_NOT_FOUND")(topic="nothing")).removesuffix(" [TOPIC_NOT_FOUND]"),
        "code": "TOPIC_NOT_FOUND",
        "do": problems.story(problems_class("TOPIC_NOT_FOUND"))[1],
        "retryable": False,
    }
    assert answer.json["do"]


@pytest.mark.parametrize("path", ["/health", "/livez", "/readyz", "/version"])
async def test_a_load_balancer_may_ask_with_head(http: Place, path: str) -> None:
    whole = await http.ask("GET", path)
    head = await http.ask("HEAD", path)

    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert (await http.ask("GET", path)).body == whole.body  # Nothing of a body was left behind.


def problems_class(code: str) -> type[PenstockError]:
    return next(kind for kind in error_classes() if kind.code == code)


def test_who_has_to_wait_is_told_for_how_long() -> None:
    error = QuotaExceeded(who="key k", what="messages a second", limit=5, retry_after=7)

    assert problems.headers(error) == [(b"retry-after", b"7")]


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v1/topics/", "/v1/topics/orders/", "//v1/topics", "/v1/topics/a%2Fb", "/v1/../etc/passwd"],
)
async def test_a_path_that_is_not_in_the_table_is_nowhere(http: Place, path: str) -> None:
    answer = await http.ask("GET", path)

    assert (answer.status, answer.code) == (404, "ROUTE_NOT_FOUND")


@pytest.mark.parametrize(
    "name", ["..", "%2e%2e", "__staging", "a%00b", "%ff", "a%0d%0aset-cookie:x", "a" * 300]
)
async def test_a_name_that_no_topic_has_harms_nobody(http: Place, name: str) -> None:
    answer = await http.ask("GET", f"/v1/topics/{name}")

    assert answer.status in (400, 404)
    assert answer.code in ("TOPIC_NOT_FOUND", "NAME_INVALID")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/topics", "GET, POST"),
        ("GET", PUBLISH, "POST"),
        ("POST", "/v1/topics/orders", "GET, HEAD, PATCH, DELETE"),
        ("OPTIONS", "/v1/topics", "GET, POST"),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(
    http: Place, method: str, path: str, allowed: str
) -> None:
    answer = await http.ask(method, path)

    assert (answer.status, answer.code) == (405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == allowed


async def test_methods_of_a_path_work_in_any_order_of_the_table(http: Place) -> None:
    by_method = sorted(ROUTES, key=lambda route: route.method)
    app = make_app(http.listener.shared, by_method)
    statuses: list[int] = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def receive() -> Message:
        return {"type": "http.request"}

    of_both = {"type": "http", "path": "/v1/topics/orders", "headers": [], "query_string": b""}
    for method in ("GET", "HEAD"):
        await app({**of_both, "method": method, "state": {"lost": asyncio.Event()}}, receive, send)

    assert statuses == [200, 204]


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; x=y"]
)
async def test_a_body_that_says_it_is_no_json_is_not_taken(http: Place, kind: str) -> None:
    answer = await http.ask("POST", PUBLISH, {"text": "a"}, {"content-type": kind})

    assert (answer.status, answer.code) == (415, "MEDIA_TYPE_UNSUPPORTED")


SMALL = msgspec.structs.replace(LimitSettings(), http_body_bytes_max=100, http_head_bytes_max=500)


async def test_a_body_that_announces_too_much_is_refused_before_it_is_sent() -> None:
    async with place(SMALL) as http:
        browser = await http.browser()
        browser.send(f"POST {PUBLISH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 101\r\n\r\n".encode())

        answer = await browser.hear()

        assert (answer.status, answer.code) == (413, "REQUEST_TOO_LARGE")
        assert answer.headers["connection"] == "close"


async def test_a_body_that_turns_out_too_long_is_refused_while_it_arrives() -> None:
    async with place(SMALL) as http:
        browser = await http.browser()
        head = f"POST {PUBLISH} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        browser.send(head.encode())
        for _ in range(3):
            browser.send(b"28\r\n" + b"x" * 40 + b"\r\n")

        answer = await browser.hear()

        assert (answer.status, answer.code) == (413, "REQUEST_TOO_LARGE")


async def test_a_body_in_pieces_is_put_together(http: Place) -> None:
    browser = await http.browser()
    browser.send(f"POST {PUBLISH} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n".encode())
    for piece in (b'{"te', b'xt": ', b'"abc"}'):
        browser.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        await browser.writer.drain()
    browser.send(b"0\r\n\r\n")

    answer = await browser.hear()

    assert answer.status == 200
    assert [message.value for message in await http.broker.peek("orders")] == [b"abc"]


@pytest.mark.parametrize("head", [f"GET /{'a' * 600} HTTP/1.1\r\n", f"GET / HTTP/1.1\r\nx: {'a' * 600}\r\n"])
async def test_a_head_that_is_too_long_is_refused_while_it_arrives(head: str) -> None:
    async with place(SMALL) as http:
        browser = await http.browser()
        browser.send(head.encode() + b"y: z\r\n")

        answer = await browser.hear()

        assert (answer.status, answer.code) == (413, "REQUEST_TOO_LARGE")
        assert "http_head_bytes_max" in answer.json["detail"]


@pytest.mark.parametrize("noise", [b"\x00\x01\x02\r\n\r\n", b"HELLO\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
async def test_what_is_no_http_is_answered_and_cut(http: Place, noise: bytes) -> None:
    browser = await http.browser()
    browser.send(noise)

    answer = await browser.hear()

    assert (answer.status, answer.code) == (400, "REQUEST_INVALID")
    assert await browser.hear_end() == b""


@pytest.mark.parametrize(
    "begun",
    [
        "",
        "GET / HT",
        "GET / HTTP/1.1\r\nhost: localhost\r\n",
        f"POST {PUBLISH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{{",
    ],
)
async def test_a_request_that_does_not_arrive_is_told_so_and_cut(begun: str) -> None:
    async with place(msgspec.structs.replace(LimitSettings(), http_timeout_ms=20)) as http:
        browser = await http.browser()
        browser.send(begun.encode())

        answer = await browser.hear()

        assert (answer.status, answer.code) == (408, "REQUEST_TIMEOUT")


async def test_a_client_that_leaves_in_the_middle_of_its_body_harms_nobody(http: Place) -> None:
    browser = await http.browser()
    browser.send(f"POST {PUBLISH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{{".encode())
    await browser.writer.drain()
    await browser.close()

    assert (await http.ask("GET", "/livez")).status == 200
    while http.listener.state.tasks:
        await asyncio.wait(http.listener.state.tasks)


async def test_a_connection_too_many_is_told_so() -> None:
    async with place(connections=1) as http:
        first = await http.browser()
        await first.ask("GET", "/livez")
        second = await http.browser()

        refused = await second.hear()

        assert (refused.status, refused.code) == (503, "OVERLOADED")
        assert refused.headers["retry-after"] == "1"
        assert (await first.ask("GET", "/livez")).status == 200


async def test_a_fault_of_the_server_is_logged_and_not_shown(
    http: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http.broker.operations, "topics", lambda: 1 / 0)

    answer = await http.ask("GET", "/v1/topics")

    assert (answer.status, answer.code) == (500, "INTERNAL")
    assert "ZeroDivisionError" in caplog.text
    assert b"ZeroDivisionError" not in answer.body


@pytest.mark.parametrize("path", ["/health", "/livez", "/readyz"])
async def test_a_server_that_is_well_says_so(http: Place, path: str) -> None:
    answer = await http.ask("GET", path)

    assert (answer.status, answer.json["status"]) == (200, "ok")


async def test_a_server_tells_its_version_and_its_counts(http: Place) -> None:
    await http.broker.publish("orders", b"x")

    version = await http.ask("GET", "/version")
    stats = await http.ask("GET", "/v1/stats")

    assert (version.json["name"], version.json["api"]) == ("penstock", "v1")
    assert (stats.json["version"], stats.json["published"]) == (version.json["version"], 1)


async def test_the_end_answers_what_was_read_and_closes_what_is_idle(http: Place) -> None:
    idle, busy = await http.browser(), await http.browser()
    await idle.ask("GET", "/livez")
    busy.send(f"POST {PUBLISH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 13\r\n\r\n{{".encode())
    await busy.writer.drain()
    await idle.ask("GET", "/livez")  # By now the other request has been begun.
    assert http.listener.state.tasks

    ending = asyncio.ensure_future(http.listener.drain())
    assert await idle.hear_end() == b""
    busy.send(b'"text": "a"}')
    answer = await busy.hear()
    await ending

    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert not http.listener.state.connections


async def test_a_server_about_to_end_is_not_ready(http: Place) -> None:
    http.listener.shared.draining = True

    assert (await http.ask("GET", "/readyz")).code == "SHUTTING_DOWN"
    assert (await http.ask("GET", "/livez")).status == 200
