"""Logins that last, for browsers: a cookie instead of a password with every request.

    login ──> begin(identity) ──> token     in a cookie that scripts cannot read and other sites cannot send
                              └─> guard     in the page; a request that changes something must show it (CSRF)
    request ──> find(token)   ──> the session, or None: not logged in

Both are 256 random bits; the server keeps a hash of the token only, in memory, so
a restart ends all sessions.  A session ends when it was not used for ``IDLE_MS``,
``LIFE_MS`` after the login, at the logout, and when its key is revoked or its user
changed: ``AuthGateway.operations`` refuses an identity that is not what it was.
"""

import hmac
import secrets
from collections import OrderedDict
from hashlib import sha256
from typing import Final

from penstock.clock import Clock
from penstock.frontends.security.identity import Credentials, Identity

TOKEN_BYTES: Final = 32
IDLE_MS: Final = 60 * 60_000
LIFE_MS: Final = 12 * 60 * 60_000
SESSIONS_MAX: Final = 10_000  # The one that was used longest ago is ended for a new one.


class BrowserSession:
    """One login of a browser."""

    def __init__(self, identity: Identity, credentials: Credentials, now_ms: int) -> None:
        self.identity = identity
        self.credentials = (
            credentials  # In memory only; for SQL, where Spark asks the broker on their behalf.
        )
        self.guard = secrets.token_urlsafe(TOKEN_BYTES)
        self.begun_ms = now_ms
        self.used_ms = now_ms

    def guarded_by(self, shown: str) -> bool:
        """Whether a request has the guard token, which only pages of this server know."""
        return hmac.compare_digest(self.guard.encode(), shown.encode("utf-8", "surrogatepass"))

    def alive(self, now_ms: int) -> bool:
        """Whether it may still be used."""
        return now_ms - self.used_ms <= IDLE_MS and now_ms - self.begun_ms <= LIFE_MS


class BrowserSessions:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sessions: OrderedDict[bytes, BrowserSession] = (
            OrderedDict()
        )  # By hash; the longest unused first.

    def begin(self, identity: Identity, credentials: Credentials) -> tuple[str, BrowserSession]:
        """Begin a session; returns the token for the cookie."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        session = self._sessions[_hash(token)] = BrowserSession(
            identity, credentials, self._clock.steady_ms()
        )
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return token, session

    def find(self, token: str) -> BrowserSession | None:
        """The session of a cookie; None if there is none, or it has ended."""
        name, now_ms = _hash(token), self._clock.steady_ms()
        session = self._sessions.get(name)
        if session is None:
            return None
        if not session.alive(now_ms):
            del self._sessions[name]
            return None
        session.used_ms = now_ms
        self._sessions.move_to_end(name)
        return session

    def end(self, token: str) -> None:
        """End a session (logout), if it has not ended already."""
        self._sessions.pop(_hash(token), None)


def _hash(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
