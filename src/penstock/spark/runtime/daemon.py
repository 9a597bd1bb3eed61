"""Spark's daemon for Python workers, with two changes.

1. No delayed acknowledgements:

    JVM ── a task ──> worker     then ── its input ──>     held back by Nagle's algorithm until the worker's
                                                           kernel acknowledges the task: 40 ms
    worker ── rows ──> JVM       then ── the end ──>       the same in the other direction

   Spark leaves the socket options at their defaults, so each task of a reused worker
   waits twice.  With this daemon (local sessions only, ``session.py``) a query of a few
   tasks takes half as long.  Rows are still coalesced while a task runs.

2. A worker whose JVM has closed the connection exits silently.  A query with a LIMIT
   closes the connections of its tasks when it has enough rows; Spark's own worker would
   then print a traceback of eighty lines.

Spark starts it as ``python -m penstock.spark.runtime.daemon``.
"""

import socket
from contextlib import suppress
from typing import Final

from pyspark import daemon

GONE: Final = 1  # How a worker ends whose JVM has hung up: Spark's daemon starts another one when needed.

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Wait for a task and do it; what is left of its answer goes out at once."""
    try:
        return _hurried(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return GONE


def _hurried(sock: socket.socket, authenticated: bool) -> int:
    if sock.family == socket.AF_UNIX:  # If Spark is configured so; it has no delayed acknowledgements.
        return _worker(sock, authenticated)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
    if hasattr(socket, "TCP_QUICKACK"):  # Linux.  It does not last, so it is said for each task.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    try:
        return _worker(sock, authenticated)
    finally:
        with suppress(OSError):  # It is closed, if the JVM did not know the password.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
