"""Checks whether a store keeps the guarantees that a cluster relies on (rule 27).

    create once      many writers create the same names at the same time: exactly one wins each
    create again     a name that exists is refused, with other bytes and with the same
    read             the next read returns the bytes of the winner
    overwrite        replaces an object; create after it is refused
    list             names that were created are listed
    delete           removes them

Each writer opens a new connection, so that different endpoints of a load balancer take part.  A probe
writes ``WRITERS * ROUNDS`` small objects under ``probe/<random>/`` and removes them.
"""

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Final

from penstock.clock import stopwatch_ns
from penstock.errors import StoreUnsafe
from penstock.store.base import Store

WRITERS: Final = 4
ROUNDS: Final = 16


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    problem: str | None  # None: it holds.


@dataclass(frozen=True, slots=True)
class Report:
    url: str
    checks: list[Check]
    create_ms: float  # Median latency of a create that succeeded.

    @property
    def safe(self) -> bool:
        return all(check.problem is None for check in self.checks)


def probe(open_store: Callable[[], Store]) -> Report:
    """Run every check; ``open_store`` returns a new connection each time."""
    stores = [open_store() for _ in range(WRITERS)]
    prefix = f"probe/{secrets.token_hex(8)}"
    run = _Probe(stores, prefix)
    try:
        return Report(stores[0].url, list(run.checks()), run.median_ms())
    finally:
        run.clean_up()
        for store in stores:
            store.close()


def require_safe(open_store: Callable[[], Store]) -> None:
    """Raise StoreUnsafe if a check fails."""
    report = probe(open_store)
    problems = [f"{check.name}: {check.problem}" for check in report.checks if check.problem is not None]
    if problems:
        raise StoreUnsafe(store=report.url, why="; ".join(problems))


class _Probe:
    def __init__(self, stores: list[Store], prefix: str) -> None:
        self._stores = stores
        self._prefix = prefix
        self._latencies_ns: list[int] = []
        self._winners: dict[str, bytes] = {}

    def checks(self) -> Iterator[Check]:
        yield Check("create once", self._create_once())
        yield Check("create again", self._create_again())
        yield Check("read", self._read())
        yield Check("overwrite", self._overwrite())
        yield Check("list", self._list())
        yield Check("delete", self._delete())

    def median_ms(self) -> float:
        return median(self._latencies_ns) / 1e6 if self._latencies_ns else 0.0

    def clean_up(self) -> None:
        for name in [*self._winners, f"{self._prefix}/overwritten"]:
            self._stores[0].delete(name)

    def _create_once(self) -> str | None:
        with ThreadPoolExecutor(len(self._stores)) as pool:
            for number in range(ROUNDS):
                name = f"{self._prefix}/{number}"
                values = [secrets.token_bytes(32) for _ in self._stores]
                created = list(pool.map(self._create, self._stores, [name] * len(values), values))
                if created.count(True) != 1:
                    self._winners.setdefault(name, b"")
                    return f"{created.count(True)} of {len(created)} concurrent writers created the same name"
                self._winners[name] = values[created.index(True)]
        return None

    def _create(self, store: Store, name: str, data: bytes) -> bool:
        began = stopwatch_ns()
        created = store.create(name, data)
        if created:
            self._latencies_ns.append(stopwatch_ns() - began)
        return created

    def _create_again(self) -> str | None:
        for name, data in self._winners.items():
            for store in self._stores:
                if store.create(name, data) or store.create(name, b"other"):
                    return "a name that exists was created again"
        return None

    def _read(self) -> str | None:
        for name, data in self._winners.items():
            if any(store.get(name) != data for store in self._stores):
                return "a read did not return what the winner had written"
        if self._stores[0].get(f"{self._prefix}/missing") is not None:
            return "a name that was never created can be read"
        return None

    def _overwrite(self) -> str | None:
        name = f"{self._prefix}/overwritten"
        for store in self._stores:
            data = secrets.token_bytes(32)
            store.overwrite(name, data)
            if any(other.get(name) != data for other in self._stores):
                return "a read after an overwrite returned other bytes"
        if self._stores[0].create(name, b"other"):
            return "a name that was overwritten could be created"
        return None

    def _list(self) -> str | None:
        missing = set(self._winners) - set(self._stores[-1].list(f"{self._prefix}/"))
        return f"{len(missing)} of {len(self._winners)} names are not listed" if missing else None

    def _delete(self) -> str | None:
        name = next(iter(self._winners))
        self._stores[0].delete(name)
        self._stores[0].delete(name)  # Deleting a missing object is not an error.
        return "a deleted object can still be read" if self._stores[-1].get(name) is not None else None
