"""Long polls and streams: requests that wait for messages, and may have to end early.

    the connection is lost                 ends without a response
    the key is revoked, the user changed   ends with an error

Each counts as one connection of its client, so the connection quota applies.
"""

from collections.abc import Callable
from typing import Self

from penstock.errors import PenstockError
from penstock.frontends.security.gateway import AuthGateway
from penstock.frontends.security.identity import Identity


class Disconnection:
    """Whether a connection was lost, and callbacks for that."""

    def __init__(self) -> None:
        self.gone = False
        self.closed = False  # A WebSocket's client has closed it in order, with a close frame.
        self._calls: set[Callable[[], None]] = set()

    def add(self, call: Callable[[], None]) -> None:
        """Call this when the connection is lost; now, if it already is."""
        if self.gone:
            call()
        else:
            self._calls.add(call)

    def discard(self, call: Callable[[], None]) -> None:
        self._calls.discard(call)

    def call_all(self) -> None:
        """Call all callbacks, whether the connection is lost or not."""
        for call in list(self._calls):
            call()

    def lose(self) -> None:
        self.gone = True
        self.call_all()


class LongPoll:
    """One such request, from ``enter`` to ``leave``."""

    def __init__(self, gateway: AuthGateway, identity: Identity, lost: Disconnection) -> None:
        self.over = False  # It has to end ...
        self.error: PenstockError | None = None  # ... for this reason, if the client is still there.
        self._gateway = gateway
        self._identity = identity
        self._lost = lost

    def enter(self) -> Self:
        """Begin the poll; ``QuotaExceeded`` beyond the limit."""
        self._admitted = self._gateway.enter(self._identity, self._revoked)
        self._lost.add(self._end)
        return self

    def leave(self) -> None:
        self._lost.discard(self._end)
        self._admitted.leave()

    def __enter__(self) -> Self:
        return self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()

    def _end(self) -> None:
        self.over = True

    def _revoked(self, error: PenstockError) -> None:
        self.error = error
        self._lost.call_all()
