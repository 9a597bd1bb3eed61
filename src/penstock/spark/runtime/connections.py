"""The broker that a process of Spark talks to, and as whom: connected once, and kept.

    driver:  options, settings, environment ──> Address ── with the work ──> executor:  broker_at(address)

An address carries the credentials, so that executors need none of their own: a
key that only the driver knows, by an option or by its environment, is enough.
They are in no text that anybody sees: not in ``repr``, and Spark, which shows the
options of a query in its plans, hides those whose names match ``HIDDEN``.

Spark's Python workers live on from task to task, so a micro-batch need not
connect anew.  A connection that broke is made again by the client itself.  A
process that was forked has connections of its own.  Such a process fetches much,
so it keeps the memory for it (``memory.py``): a third less work for each row.

After each task a worker of Spark looks for garbage among all its objects, 100,000
of which are modules: 25 ms, while the next task waits.  So what is there when a
worker asks for its broker is left out of that from then on, whenever it has
modules that it had not the last time: a query's own, or those that Arrow needs.
"""

import gc
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.client.login import ClientLogin
from penstock.client.sync import RemoteBroker, connect
from penstock.memory import keep_memory

SERVERS: Final = "127.0.0.1:7070"
LOGIN: Final = ("key", "user", "password")
DAEMON: Final = (
    "penstock.spark.runtime.daemon"  # Starts the workers of a local session; elsewhere Spark's own does.
)
# Spark's own setting hides "url"; passwords are hidden by another one.
HIDING: Final = "spark.sql.redaction.options.regex"
HIDDEN: Final = "(?i)url|^key$|^password$"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker listens, and who asks it."""

    servers: str = SERVERS
    key: str | None = field(default=None, repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def options(self) -> dict[str, str]:
        """The same as the options of a reader or a writer."""
        return {name: text for name in ("servers", *LOGIN) if (text := getattr(self, name)) is not None}

    def connect(self) -> RemoteBroker:
        """A connection of one's own."""
        return connect(self.servers, key=self.key, user=self.user, password=self.password)


def address_of(options: Mapping[str, str]) -> Address:
    """The address among some options; who is not said there is whom the environment here says."""
    login = ClientLogin(options.get("key"), options.get("user"), options.get("password"))
    return Address(options.get("servers", SERVERS), login.key, login.user, login.password)


_connected: Final[dict[tuple[int, Address], RemoteBroker]] = {}  # By process and address.
_left_out = 0  # How many modules there were when what is there was last left out.


def broker_at(address: Address) -> RemoteBroker:
    """The broker that listens there."""
    place = (os.getpid(), address)
    if place not in _connected:
        keep_memory()
        _connected[place] = address.connect()
    if _is_worker():
        _leave_out_modules()
    return _connected[place]


def _leave_out_modules() -> None:
    global _left_out
    if len(sys.modules) != _left_out:
        _left_out = len(sys.modules)
        gc.freeze()


def _is_worker() -> bool:
    """Is this one of Spark's Python workers?  Any other process is its program's, garbage and all."""
    program = getattr(sys.modules["__main__"], "__spec__", None)
    return program is not None and program.name in (DAEMON, "pyspark.daemon")


def close_all() -> None:
    """Hang up; who comes again is connected anew."""
    while _connected:
        _connected.popitem()[1].close()
