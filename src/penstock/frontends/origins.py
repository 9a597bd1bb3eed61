"""Which web pages may use the API: any web page can make the browser call this server.

A program that sends a request has a key, or runs on a trusted machine.  A page has
neither, but may be open in a browser on such a machine.  So the headers by which a
browser identifies the page are checked; of these, programs send only the host:

    Host            while no login is asked for: an address, localhost, the name that is listened
                    on, or one of ``http.hosts``.  A page whose own name was made to lead here
                    (DNS rebinding) has another.
    Origin,         the page is one of this server, or its origin is in ``http.cors_origins``.
    Sec-Fetch-Site  Without an origin (a link, an image) a request may read, and change nothing.

The HTTP API and the status page both ask this module.  CORS itself, which lets pages of those origins read
the answers, is Starlette's (``http/cors.py``).
"""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

from penstock.config.server import HttpSettings
from penstock.errors import HostNotAllowed, OriginNotAllowed

EVERY: Final = "*"
LOCAL: Final = "localhost"
OWN: Final = (b"same-origin", b"none")  # Sites: a page of this server; the user has typed the address.
KNOWN_MAX: Final = 1000  # Hosts that are remembered as allowed.
SHOWN_LENGTH_MAX: Final = 200  # Of a header that a client sent, in an error.


class Origins:
    """The allowed hosts and origins of one listener."""

    def __init__(self, settings: HttpSettings, listening: str, *, authentication: bool) -> None:
        self.cors = settings.origins
        self._any = EVERY in self.cors
        self._origins = {origin.encode() for origin in self.cors}
        self._check_hosts = not authentication
        self._names = {LOCAL, listening.lower(), *settings.names}
        self._known: set[bytes | None] = {None}  # Browsers always say it.

    def check(self, headers: Mapping[bytes, bytes], *, looks: bool) -> None:
        """Refuse a request that a page must not make; ``looks``: it only reads."""
        host = headers.get(b"host")
        if self._check_hosts and host not in self._known:
            self._check_host(host or b"")
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        if origin is None and (site is None or looks):
            return
        if self._any or origin in self._origins or site in OWN:
            return
        if site is None and (origin or b"").partition(b"://")[2].lower() == (host or b"?").lower():
            return  # A browser that does not know of sites, or does not tell them without encryption.
        raise OriginNotAllowed(origin=_shown(origin or b"another site"))

    def _check_host(self, host: bytes) -> None:
        name = host_name(host)
        if name not in self._names and not name.endswith(f".{LOCAL}") and not _is_address(name):
            raise HostNotAllowed(host=_shown(host))
        if len(self._known) < KNOWN_MAX:
            self._known.add(host)


def host_name(host: bytes) -> str:
    """A name or an address, without the port."""
    text = host.decode("latin-1").strip().lower()
    name, colon, port = text.rpartition(":")
    name = name if colon and port.isdigit() else text
    return name[1:-1] if name.startswith("[") and name.endswith("]") else name.removesuffix(".")


def _is_address(name: str) -> bool:
    """Whether it is an address: a name could be resolved to any address (DNS rebinding)."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _shown(text: bytes) -> str:
    return text.decode("latin-1")[:SHOWN_LENGTH_MAX]
