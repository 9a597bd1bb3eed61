"""The page that shows the API to people: whole, and of itself alone."""

from html.parser import HTMLParser

from tests.frontends.http.browser import Place

from penstock.frontends.http.pages.docs import page
from penstock.frontends.http.pages.openapi import document
from penstock.frontends.http.routes import ROUTES


class Seen(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.links: set[str] = set()
        self.loaded: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        self.tags.add(tag)
        self.names.update(told[name] for name in ("id",) if name in told)
        self.links.update(told[name] for name in ("href",) if name in told)
        self.loaded += [told[name] for name in ("src", "srcset", "data") if name in told]

    def handle_data(self, data: str) -> None:
        self.text += data


async def test_the_page_is_served_without_a_login_and_may_load_nothing(http: Place) -> None:
    answer = await http.ask("GET", "/docs")

    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    seen = Seen(answer.body.decode())
    assert not seen.loaded
    assert not seen.tags & {"script", "link", "img", "iframe", "object"}


def test_every_operation_and_every_document_is_there_and_every_link_leads_somewhere() -> None:
    made = document(ROUTES)

    seen = Seen(page(made).decode())

    assert {route.name for route in ROUTES} <= seen.names
    assert {f"schema-{name}" for name in made["components"]["schemas"]} <= seen.names
    assert {link.removeprefix("#") for link in seen.links if link.startswith("#")} <= seen.names
    assert {link for link in seen.links if not link.startswith("#")} == {"/openapi.json"}
    for route in ROUTES:
        assert route.summary in seen.text


def test_words_that_look_like_markup_are_shown_as_words() -> None:
    made = document(ROUTES)
    made["paths"]["/v1/topics"]["get"]["summary"] = "<script>alert(1)</script>"

    seen = Seen(page(made).decode())

    assert "script" not in seen.tags
    assert "<script>alert(1)</script>" in seen.text


def test_an_operation_has_a_command_to_try() -> None:
    seen = Seen(page(document(ROUTES)).decode())

    assert (
        """curl --json '{"text":"two books","key":"anna"}' http://localhost:8080/v1/topics/orders/publish"""
        in seen.text
    )
    assert "curl -X DELETE http://localhost:8080/v1/schedules/orders:0:s0" in seen.text
