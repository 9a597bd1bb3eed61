"""Spark's daemon that starts Python workers, with two things changed.

Nobody waits for an acknowledgement:

    JVM ── a task ──> worker     then ── its input ──>     held back by Nagle's algorithm, until the kernel
                                                           of the worker acknowledges the task: 40 ms
    worker ── rows ──> JVM       then ── the end ──>       the same the other way round

Spark leaves its sockets as they are, so every task of a worker that is used again
waits twice.  A local session runs this daemon instead (``session.py``), and a query
of a few tasks takes half as long.  Meanwhile rows are gathered as before: small
packets for each piece of a batch would cost more than they bring.

And a worker to which nobody listens any more ends without a word.  A query with a
LIMIT that has enough rows hangs up on its tasks, and Spark's own worker would tell
that on stderr, in eighty lines.

Runs in processes of Spark, as ``python -m penstock.spark.runtime.daemon``.
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
    if sock.family == socket.AF_UNIX:  # As somebody may have told Spark; there is nothing to wait for.
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
