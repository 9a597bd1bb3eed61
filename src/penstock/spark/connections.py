"""The broker that a process of Spark talks to: connected once, and kept.

Spark's Python workers live on from task to task, so a micro-batch need not
connect anew.  A connection that broke is made again by the client itself.  A
process that was forked has connections of its own.  Such a process fetches much,
so it keeps the memory for it (``memory.py``): a third less work for each row.
"""

import os
from typing import Final

from penstock.client.sync import RemoteBroker, connect
from penstock.memory import keep_memory

_connected: Final[dict[tuple[int, str], RemoteBroker]] = {}  # By process and servers.


def broker_at(servers: str) -> RemoteBroker:
    """The broker that listens there."""
    place = (os.getpid(), servers)
    if place not in _connected:
        keep_memory()
        _connected[place] = connect(servers)
    return _connected[place]


def close_all() -> None:
    """Hang up; who comes again is connected anew."""
    while _connected:
        _connected.popitem()[1].close()
