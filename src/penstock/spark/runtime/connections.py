"""Connections of a Spark process to brokers: opened once per process and kept.

    driver:  options, settings, environment ──> Address ── with the task ──> executor:  broker_at(address)

An address includes the credentials, so executors need none of their own.  They do not
appear in ``repr``, and Spark redacts options whose names match ``HIDDEN`` in plans.

Python workers serve many tasks, so micro-batches reuse a connection; the client
reconnects a broken one.  A forked process opens its own.  Workers also keep freed
memory (``memory.py``), which makes reading a third cheaper.

Spark workers call ``gc.collect()`` after every task, which takes 25 ms with 100,000
objects of loaded modules.  ``gc.freeze()`` excludes them; it is repeated when a query
has loaded more modules.
"""

import gc
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.client.connections.login import ClientLogin
from penstock.client.sync import RemoteBroker, connect
from penstock.memory import keep_memory

SERVERS: Final = "127.0.0.1:7070"
LOGIN: Final = ("key", "user", "password")
DAEMON: Final = (
    "penstock.spark.runtime.daemon"  # Starts the workers of a local session; elsewhere Spark's own does.
)
# A variable of the environment in a local session: how many tasks run at a time.
LOCAL_CORES: Final = "SPARK_LOCAL_CORES_OF_PENSTOCK"
# Spark's own setting hides "url"; passwords are hidden by another one.
HIDING: Final = "spark.sql.redaction.options.regex"
HIDDEN: Final = "(?i)url|^key$|^password$"


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a broker, and credentials."""

    servers: str = SERVERS
    key: str | None = field(default=None, repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def options(self) -> dict[str, str]:
        """Address and credentials as options of a reader or a writer."""
        return {name: text for name in ("servers", *LOGIN) if (text := getattr(self, name)) is not None}

    def connect(self) -> RemoteBroker:
        """Open a new connection, which the caller closes."""
        return connect(self.servers, key=self.key, user=self.user, password=self.password)


def address_of(options: Mapping[str, str]) -> Address:
    """The address in some options; credentials default to the environment of this process."""
    login = ClientLogin(options.get("key"), options.get("user"), options.get("password"))
    return Address(options.get("servers", SERVERS), login.key, login.user, login.password)


_connected: Final[dict[tuple[int, Address], RemoteBroker]] = {}  # By process and address.
_left_out = 0  # How many modules there were when what is there was last left out.


def broker_at(address: Address) -> RemoteBroker:
    """The connected broker at an address; the connection is shared in this process."""
    key = (os.getpid(), address)
    if key not in _connected:
        keep_memory()
        _connected[key] = address.connect()
    if _is_worker():
        _leave_out_modules()
    return _connected[key]


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
    """Close all connections; later calls reconnect."""
    while _connected:
        _connected.popitem()[1].close()
