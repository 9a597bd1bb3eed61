"""A store in a PostgreSQL table, for teams that already run PostgreSQL.

    penstock_objects (name text primary key, data bytea)

``create`` is an ``INSERT ... ON CONFLICT DO NOTHING`` in a transaction of its own: with a synchronous standby
its commit returns when the row is on two machines.  A name that is taken may belong to a transaction whose
commit was interrupted while it waited for the standby; before *exists* is answered, an empty message is
written to PostgreSQL's own log (``pg_logical_emit_message``), and its commit waits for everything before it.

A server without a synchronous standby is refused, because a fail-over to an asynchronous one forgets
acknowledged writes.  ``?synchronous=off`` in the URL allows it, for tests and for storage that is replicated
below PostgreSQL.
"""

from collections.abc import Iterator
from typing import Any, Final, LiteralString
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from penstock.errors import ExtraMissing, StoreRefused, StoreUnavailable, StoreUnsafe
from penstock.store.base import OBJECT_BYTES_MAX, REQUEST_S, check_name
from penstock.store.idle import IdleConnections

SYNCHRONOUS: Final = "synchronous"
CONNECT_S: Final = 5
LIST_PAGE: Final = 1000

# The lock: of two nodes that create the table at the same time, one would fail.
TABLE: Final = """
    DO $$ BEGIN
        PERFORM pg_advisory_xact_lock(7070);
        CREATE TABLE IF NOT EXISTS penstock_objects (name text COLLATE "C" PRIMARY KEY, data bytea NOT NULL);
    END $$
"""
SETTINGS: Final = "SELECT current_setting('synchronous_commit'), current_setting('synchronous_standby_names')"
CREATE: Final = "INSERT INTO penstock_objects VALUES (%s, %s) ON CONFLICT DO NOTHING"
BARRIER: Final = "SELECT pg_logical_emit_message(true, 'penstock', '')"
GET: Final = "SELECT data FROM penstock_objects WHERE name = %s"
LIST: Final = """
    SELECT name FROM penstock_objects WHERE name > %s AND starts_with(name, %s) ORDER BY name LIMIT %s
"""
DELETE: Final = "DELETE FROM penstock_objects WHERE name = %s"
OVERWRITE: Final = (
    "INSERT INTO penstock_objects VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET data = EXCLUDED.data"
)
# Classes of SQLSTATE: connection, resources, operator intervention, system; 40: a transaction to be repeated.
TEMPORARY: Final = ("08", "40", "53", "57", "58")


class PostgresqlStore:
    object_bytes_max = OBJECT_BYTES_MAX

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ModuleNotFoundError:
            raise ExtraMissing(what="psycopg", extra="cluster") from None
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        must_be_synchronous = options.pop(SYNCHRONOUS, "on") != "off"
        host = parts.netloc.rpartition("@")[2]
        self.url = f"postgresql://{host}{parts.path}"
        self._address = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(options), ""))
        self._psycopg: Any = psycopg
        self._idle: IdleConnections[Any] = IdleConnections()
        self._run(TABLE)
        ((commit, standbys),) = self._run(SETTINGS)
        if must_be_synchronous and (commit in ("off", "local") or not standbys):
            why = (
                f"synchronous_commit is {commit!r} and synchronous_standby_names is {standbys!r}, so a "
                "fail-over can lose acknowledged writes; configure a synchronous standby, or add "
                "?synchronous=off if the storage itself is replicated"
            )
            self.close()
            raise StoreUnsafe(store=self.url, why=why)

    def create(self, name: str, data: bytes) -> bool:
        if self._run(CREATE, check_name(name), data) == 1:
            return True
        self._run(BARRIER)
        return False

    def get(self, name: str) -> bytes | None:
        rows = self._run(GET, check_name(name))
        return bytes(rows[0][0]) if rows else None

    def list(self, prefix: str) -> Iterator[str]:
        last = ""
        while rows := self._run(LIST, last, prefix, LIST_PAGE):
            yield from (name for (name,) in rows)
            last = rows[-1][0]

    def delete(self, name: str) -> None:
        self._run(DELETE, check_name(name))

    def overwrite(self, name: str, data: bytes) -> None:
        self._run(OVERWRITE, check_name(name), data)

    def close(self) -> None:
        self._idle.close()

    def _run(self, statement: LiteralString, *values: object) -> Any:
        """Run one statement in a transaction of its own; returns its rows, or how many it changed."""
        try:
            connection = self._idle.take(self._connect)
            cursor = connection.execute(statement, values, binary=True)
            result = cursor.fetchall() if cursor.description else cursor.rowcount
        except self._psycopg.Error as error:
            raise self._error(error) from error
        self._idle.put(connection)
        return result

    def _connect(self) -> Any:
        limits = f"-c statement_timeout={REQUEST_S}s -c synchronous_commit=on"
        return self._psycopg.connect(
            self._address, autocommit=True, connect_timeout=CONNECT_S, options=limits,
            keepalives_idle=REQUEST_S, tcp_user_timeout=REQUEST_S * 1000,
        )  # fmt: skip

    def _error(self, error: Any) -> StoreRefused | StoreUnavailable:
        state = error.sqlstate
        temporary = isinstance(error, self._psycopg.OperationalError) and state is None
        why = str(error).strip().partition("\n")[0]
        if temporary and any(word in why for word in ("authentication", "does not exist", "no pg_hba")):
            temporary = False
        kind = StoreUnavailable if temporary or (state or "")[:2] in TEMPORARY else StoreRefused
        return kind(store=self.url, why=why)
