"""Keeps a Spark session running for ``penstock sql`` on the same machine, until it is idle.

    penstock sql --keep, or penstock pipeline run sql      this pipeline
    penstock serve --archive                               the archive answers queries, too (``answering``)

``penstock sql`` finds it by the state of the run, which contains the path of the socket.  The run
keeps nothing, so it may be killed at any time.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Final

import msgspec

from penstock.errors import PenstockError, QueryFailed
from penstock.spark.pipelines.run.context import Context
from penstock.spark.queries.session.server import SqlServer, forget_credentials

logger = logging.getLogger("penstock.spark")

ADDRESS_BYTES_MAX: Final = 107  # What the address of a Unix socket holds.
LOOK_S: Final = 1.0  # How often the run looks whether it is still used.


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    # End the run when there was no query for so long; 0: never.
    idle_ms: int = 30 * 60 * 1000
    # Where to listen; empty: a new directory for temporary files.
    sql_socket: str = ""


def run(settings: Settings, context: Context) -> None:
    """Answer queries until stopped or idle."""
    with answering(settings.sql_socket, context) as server:
        while not context.stopping.wait(LOOK_S):
            if server.spark_ended:
                raise QueryFailed(why="it could not be cancelled")  # The run reports how the JVM has ended.
            idle_ms = context.clock.steady_ms() - server.used_ms
            if context.once or (settings.idle_ms and idle_ms >= settings.idle_ms):
                return


@contextmanager
def answering(path: str, context: Context) -> Iterator[SqlServer]:
    """Answer queries on a socket within the block, and say so in the state of the run.

    Without a path, or with one that is too long for a socket, it is in a temporary directory.
    """
    forget_credentials()
    context.spark_settings.setdefault(
        "spark.scheduler.mode", "FAIR"
    )  # The run's jobs do not hold queries up.
    with TemporaryDirectory(prefix="penstock-sql-") as directory:
        fits = 0 < len(path.encode()) <= ADDRESS_BYTES_MAX
        location = Path(path if fits else f"{directory}/sql.sock")
        with SqlServer(context.spark, location, context.clock, context.address.servers) as server:
            warming = Thread(target=_warm_up, args=(server, context), name="sql-warm-up", daemon=True)
            warming.start()
            context.sql_socket = str(location)
            context.progress.note("answering queries")
            try:
                yield server
            finally:
                context.sql_socket = ""
                warming.join()


def _warm_up(server: SqlServer, context: Context) -> None:
    try:
        server.warm_up(context.address)
    except PenstockError as error:  # The first query is slower, and may say the same to its caller.
        logger.warning("cannot prepare Spark for queries: %s", error)
