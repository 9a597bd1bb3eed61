"""The dashboard's files: found by name and by nothing else, with a policy that keeps strangers out."""

import re
from importlib.resources import files

import pytest
from tests.frontends.http.browser import Place


async def test_the_page_and_what_it_asks_for_is_there(http: Place) -> None:
    page = await http.ask("GET", "/ui/")

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    wanted = re.findall(r'(?:src|href)="([a-z_/.-]+\.(?:js|css|svg))"', page.body.decode())
    assert wanted
    for name in wanted:
        answer = await http.ask("GET", f"/ui/{name}")
        assert (answer.status, bool(answer.body)) == (200, True)


async def test_every_module_that_another_imports_is_served(http: Place) -> None:
    folder = files("penstock") / "web"
    modules = [each.name for each in folder.iterdir() if each.name.endswith(".js")]
    modules += [f"pages/{each.name}" for each in (folder / "pages").iterdir()]

    browser = await http.browser()
    for name in modules:
        text = (await browser.ask("GET", f"/ui/{name}")).body.decode()
        before = "pages/" if name.startswith("pages/") else ""
        for found in re.findall(r'from "(\.{1,2}/[^"]+)"', text):
            path = found.removeprefix("./") if found.startswith("./") else found.removeprefix("../")
            path = before + path if found.startswith("./") else path
            assert (await browser.ask("GET", f"/ui/{path}")).status == 200, (name, found)


async def test_nothing_in_the_page_is_loaded_from_elsewhere_or_made_of_text(http: Place) -> None:
    answer = await http.ask("GET", "/ui/")

    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; ")
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/ui"])
async def test_shorter_addresses_lead_to_the_page(http: Place, path: str) -> None:
    answer = await http.ask("GET", path)

    assert (answer.status, answer.headers["location"]) == (307, "/ui/")


async def test_a_browser_that_has_a_file_is_not_sent_it_again(http: Place) -> None:
    tag = (await http.ask("GET", "/ui/style.css")).headers["etag"]

    again = await http.ask("GET", "/ui/style.css", headers={"if-none-match": tag})
    other = await http.ask("GET", "/ui/style.css", headers={"if-none-match": '"other"'})

    assert (again.status, again.body) == (304, b"")
    assert other.status == 200


async def test_a_head_has_no_body(http: Place) -> None:
    answer = await http.ask("HEAD", "/ui/")

    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


@pytest.mark.parametrize(
    "path",
    [
        "/ui/../__init__.py",
        "/ui/%2e%2e/__init__.py",
        "/ui/..%2f__init__.py",
        "/ui//etc/passwd",
        "/ui/pages",
        "/ui/pages/",
        "/ui/style.css/",
        "/ui/style.css%00",
        "/ui/nothing",
    ],
)
async def test_what_is_no_file_of_the_dashboard_is_nothing(http: Place, path: str) -> None:
    assert (await http.ask("GET", path)).code == "ROUTE_NOT_FOUND"


async def test_files_are_only_read(http: Place) -> None:
    answer = await http.ask("POST", "/ui/style.css", b"")

    assert (answer.code, answer.headers["allow"]) == ("METHOD_NOT_ALLOWED", "GET, HEAD")
