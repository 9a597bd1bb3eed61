"""Browser sessions: a cookie instead of a key with every request.

    GET    /ui/session    the logged-in user, and the CSRF token of the session
    POST   /ui/session    a key, or a user's name and password ──> the cookie
    DELETE /ui/session    log out

Scripts cannot read the cookie (HttpOnly), other sites cannot send it (SameSite=Strict), and after a login
over TLS it is never sent unencrypted (Secure).  In addition, a request that changes something must send the
CSRF token in a header, which a page of another origin can neither know nor send.

These routes belong to the dashboard, not to the API: programs authenticate with a key.
"""

from http.cookies import CookieError, SimpleCookie
from typing import Final, Literal

import msgspec

from penstock.errors import Unauthenticated
from penstock.frontends.http.call import HttpCall, Route
from penstock.frontends.security.identity import Credentials
from penstock.frontends.security.sessions import BrowserSession

PATH: Final = "/ui/session"
COOKIE: Final = "penstock"
GUARD: Final = b"x-penstock-guard"
READING: Final = frozenset({"GET", "HEAD"})  # Methods that change nothing.


class Shown(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Credentials of a login: a key, or a name and a password."""

    key: str | None = None
    user: str | None = None
    password: str | None = None


class Who(msgspec.Struct, frozen=True, kw_only=True):
    required: bool  # Whether this server requires a login at all.
    kind: Literal["key", "user", "nobody"] = "nobody"
    name: str = ""
    guard: str | None = None  # What requests that change something show.
    cluster: bool = False  # Whether this server is a node of a cluster.


async def who(call: HttpCall) -> Who:
    """The identity of the session, if there is one."""
    gateway = call.shared.gateway
    session = session_of(call) if gateway.required else None
    if session is None:
        return Who(required=gateway.required, cluster=_in_cluster(call))
    gateway.operations(session.identity)  # Refused if it is not what it was.
    return _who(call, session)


async def log_in(call: HttpCall) -> Who:
    gateway = call.shared.gateway
    if not gateway.required:
        return Who(required=False)
    if call.header(GUARD) is None:  # Only a page of this origin can send it, whatever its value.
        raise Unauthenticated(why=f"a login requires the header {GUARD.decode()}")
    body: Shown = call.body
    shown = Credentials(key=body.key, user=body.user, password=body.password)
    token, session = gateway.sessions.begin(await gateway.login(shown, call.address), shown)
    call.more = (_cookie(token, secure=call.secure),)
    return _who(call, session)


async def log_out(call: HttpCall) -> None:
    session = session_of(call)
    if session is not None:
        check_guard(call, "DELETE", session)
        call.shared.gateway.sessions.end(_token(call))
    call.more = (_cookie("", secure=call.secure, ended=True),)


ROUTES: Final = (
    Route("GET", PATH, who, None, tag="session"),
    Route("POST", PATH, log_in, None, tag="session", body=Shown),
    Route("DELETE", PATH, log_out, None, tag="session", status=204),
)


def session_of(call: HttpCall) -> BrowserSession | None:
    """The session of a request's cookie; None if there is none or it has ended."""
    token = _token(call)
    return call.shared.gateway.sessions.find(token) if token else None


def check_guard(call: HttpCall, method: str, session: BrowserSession) -> None:
    """Refuse a request that may change something unless it comes from a page of this server."""
    if method not in READING and not session.guarded_by(call.header(GUARD) or ""):
        raise Unauthenticated(why=f"the header {GUARD.decode()} does not have the guard of this session")


def _who(call: HttpCall, session: BrowserSession) -> Who:
    identity = session.identity
    return Who(
        required=True,
        kind=identity.kind,
        name=identity.called or identity.name,
        guard=session.guard,
        cluster=_in_cluster(call),
    )


def _in_cluster(call: HttpCall) -> bool:
    return bool(call.shared.gateway.owners.nodes())


def _token(call: HttpCall) -> str:
    try:
        cookies = SimpleCookie(call.header(b"cookie") or "")
    except CookieError:
        return ""
    found = cookies.get(COOKIE)
    return "" if found is None else found.value


def _cookie(token: str, *, secure: bool, ended: bool = False) -> tuple[bytes, bytes]:
    parts = [f"{COOKIE}={token}", "Path=/", "HttpOnly", "SameSite=Strict"]
    parts += ["Secure"] if secure else []
    parts += ["Max-Age=0"] if ended else []
    return b"set-cookie", "; ".join(parts).encode()
