"""Health, version and statistics of the server; only statistics need authentication."""

import platform
from collections import Counter
from typing import Literal

import msgspec

from penstock.errors import ShuttingDown, Unhealthy
from penstock.frontends.http.call import HttpCall
from penstock.model.info import BrokerInfo
from penstock.version import __version__


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The server is healthy."""

    status: Literal["ok"] = "ok"
    version: str = __version__


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """Version of this server."""

    name: str = "penstock"
    version: str = __version__
    api: str = "v1"
    python: str = platform.python_version()


async def health(call: HttpCall) -> Health:
    """Health check; same as /readyz."""
    return await readyz(call)


async def livez(_: HttpCall) -> Health:
    """Liveness check; if it does not respond, restart the server."""
    return Health()


async def readyz(call: HttpCall) -> Health:
    """Readiness check: the server accepts requests, has no storage problem and is not shutting down.

    Problems are described in general terms, because no authentication is needed; `/v1/overview` has the
    details.
    """
    if call.shared.draining:
        raise ShuttingDown(what="server")
    kinds = Counter(problem.kind for problem in call.shared.broker.problems())
    if kinds:
        raise Unhealthy(problems=", ".join(_in_words(kind, count) for kind, count in kinds.items()))
    return Health()


def _in_words(kind: str, count: int) -> str:
    words = kind.replace("_", " ")
    return words if count == 1 else f"{words} ({count} times)"


async def version(_: HttpCall) -> Version:
    """Name and version of the server, and of this API."""
    return Version()


async def stats(call: HttpCall) -> BrokerInfo:
    """Broker statistics: uptime, sizes and counts."""
    return await call.run(call.operations.stats())
