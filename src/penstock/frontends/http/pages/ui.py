"""The dashboard's files, under /ui: HTML, styles and scripts from ``penstock/web``.

    /, /ui ──> /ui/ ──> index.html         the page requests everything else: files, and the API
    /ui/pages/topic.js ──> web/pages/topic.js

All files are read once, when the listener is created, and looked up in a dict by their full name, so path
traversal is impossible.  Each file has an ETag, so a browser that has it gets a 304 response.

``POLICY`` (the content security policy) is sent with each file: nothing is loaded from other origins, no
script or style is inline, no page may frame this one, and Chromium refuses to convert text to HTML.  Messages
may be hostile, and are shown as text.
"""

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import msgspec
from starlette.types import Receive, Scope, Send

from penstock.errors import MethodNotAllowed, PenstockError, RouteNotFound

PATH: Final = "/ui"
# The root too: a person who opens the address of the server wants the dashboard.
PATHS: Final = (
    "/",
    PATH,
    PATH + "/{name:path}",
)
INDEX: Final = "index.html"
KINDS: Final = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
POLICY: Final = (
    (
        b"content-security-policy",
        b"default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
        b"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),  # Ask each time whether it is still this.
)
TAG_BYTES: Final = 12

Refuse = Callable[[Send, PenstockError], Awaitable[None]]


class UiFile(msgspec.Struct, frozen=True):
    kind: bytes
    content: bytes
    tag: bytes


class UiFiles:
    """All files of the dashboard, as an application of its own."""

    def __init__(self, refuse: Refuse) -> None:
        self._files = dict(_read(files("penstock") / "web"))
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's.
        try:
            await self._answer(scope, send)
        except PenstockError as error:
            await self._refuse(send, error)

    async def _answer(self, scope: Scope, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed(path=scope["path"], method=scope["method"], allowed="GET, HEAD")
        if scope["path"] in ("/", PATH):
            await _send(send, 307, (b"location", f"{PATH}/".encode()))
            return
        found = self._files.get(scope["path_params"].get("name") or INDEX)
        if found is None:
            raise RouteNotFound(path=scope["path"])
        known = dict(scope["headers"]).get(b"if-none-match")
        if known == found.tag:
            await _send(send, 304, (b"etag", found.tag))
            return
        content = found.content if scope["method"] == "GET" else b""
        length = b"%d" % len(found.content)
        head = (b"content-type", found.kind), (b"content-length", length), (b"etag", found.tag)
        await _send(send, 200, *head, body=content)


def _read(folder: Traversable, before: str = "") -> list[tuple[str, UiFile]]:
    found: list[tuple[str, UiFile]] = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _read(each, f"{before}{each.name}/")
            continue
        kind = KINDS.get(each.name.rpartition(".")[2])
        if kind is not None:
            content = each.read_bytes()
            tag = blake2b(content, digest_size=TAG_BYTES).hexdigest()
            found.append((before + each.name, UiFile(kind, content, f'"{tag}"'.encode())))
    return found


async def _send(send: Send, status: int, *head: tuple[bytes, bytes], body: bytes = b"") -> None:
    await send({"type": "http.response.start", "status": status, "headers": [*POLICY, *head]})
    await send({"type": "http.response.body", "body": body})
