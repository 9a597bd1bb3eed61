"""Where a server is: ``penstock://host:port``, ``host:port`` alone, or ``penstocks://`` for TLS."""

import re
from typing import Any, Final, NamedTuple

from penstock.errors import InvalidValue

DEFAULT_PORT: Final = 7070
PORT_MAX: Final = 65_535

_URL: Final = re.compile(r"(?:penstock(s)?://)?(\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\]]+)(?::([0-9]{1,5}))?/?")


class ServerAddress(NamedTuple):
    """Host and port of a server."""

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"penstock{'s' if self.tls else ''}://{host}:{self.port}"


def server_address(url: Any) -> ServerAddress:
    """The address in a URL; an IPv6 address is written in brackets, the port may be left out."""
    match = _URL.fullmatch(url) if isinstance(url, str) else None
    port = DEFAULT_PORT if match is None or match[3] is None else int(match[3])
    if match is None or not 1 <= port <= PORT_MAX:
        raise InvalidValue(name="url", value=url, why="write it like 'penstock://127.0.0.1:7070'")
    return ServerAddress(match[2].strip("[]"), port, match[1] is not None)
