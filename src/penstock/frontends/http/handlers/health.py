"""Whether the server is well, what it is, and how much it has done; all but the last without a login."""

import platform
from collections import Counter
from typing import Literal

import msgspec

from penstock.errors import ShuttingDown, Unhealthy
from penstock.frontends.http.call import HttpCall
from penstock.model.info import BrokerInfo
from penstock.version import __version__


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """All is well."""

    status: Literal["ok"] = "ok"
    version: str = __version__


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """What this server is."""

    name: str = "penstock"
    version: str = __version__
    api: str = "v1"
    python: str = platform.python_version()


async def health(call: HttpCall) -> Health:
    """Whether the server works: the same as /readyz."""
    return await readyz(call)


async def livez(_: HttpCall) -> Health:
    """Whether the process lives; if this does not answer, restart it."""
    return Health()


async def readyz(call: HttpCall) -> Health:
    """Whether requests are served, and the storage is well; not any more once the server is about to end.

    What is wrong is said in general terms, because anybody may ask; `/v1/overview` has the details.
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
    """The broker at a glance: uptime, sizes, counts."""
    return await call.run(call.operations.stats())
