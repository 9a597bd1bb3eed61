"""Where servers are: ``penstock://host:port``, ``host:port`` alone, or ``penstocks://`` for TLS.

The nodes of a cluster are given as ``penstock://a,b:7071,c``, or as a list of such addresses.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from penstock.errors import InvalidValue
from penstock.types import shown_url

DEFAULT_PORT: Final = 7070
PORT_MAX: Final = 65_535

_SCHEME: Final = re.compile(r"(penstocks?://)?(.*?)/?", re.DOTALL)
_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\],]+)(?::([0-9]{1,5}))?")


class ServerAddress(NamedTuple):
    """Host and port of a server."""

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"penstock{'s' if self.tls else ''}://{host}:{self.port}"


def server_addresses(url: Any) -> list[ServerAddress]:
    """The addresses in a URL or a list of them; an IPv6 address is in brackets, the port may be left out."""
    if isinstance(url, Sequence) and not isinstance(url, str | bytes) and url:
        found = [address for each in url for address in server_addresses(each)]
    else:
        found = _in_url(url)
    if len({address.tls for address in found}) > 1:
        raise InvalidValue(name="url", value=url, why="use TLS for all nodes of a cluster, or for none")
    return list(dict.fromkeys(found))


def _in_url(url: Any) -> list[ServerAddress]:
    parts = _SCHEME.fullmatch(url) if isinstance(url, str) else None
    matches = [_SERVER.fullmatch(server) for server in parts[2].split(",")] if parts is not None else [None]
    found = [
        ServerAddress(
            match[1].strip("[]"),
            int(match[2] or DEFAULT_PORT),
            parts is not None and parts[1] == "penstocks://",
        )
        for match in matches
        if match is not None
    ]
    if len(found) < len(matches) or not all(1 <= address.port <= PORT_MAX for address in found):
        value = shown_url(url) if isinstance(url, str) else url
        raise InvalidValue(name="url", value=value, why="write it like 'penstock://127.0.0.1:7070'")
    return found
