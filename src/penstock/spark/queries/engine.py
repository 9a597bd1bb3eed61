"""Runs queries: on a session of this process, or on a warm one in another process.

    penstock sql ──┬── LocalEngine: Tables on a new Spark session, which takes some 20 s to start
                   └── RemoteEngine (session/client.py) ── socket ──> SqlServer: a session that is warm

Both give the same answers, because both are Spark (docs/decisions explains why there is no second engine).
"""

from typing import NamedTuple, Protocol

from penstock.spark.queries.query_result import QueryResult, result_of
from penstock.spark.queries.views import Tables


class ColumnInfo(NamedTuple):
    """A column of a table."""

    name: str
    type: str


class QueryEngine(Protocol):
    """Runs queries for a shell; every method raises ``QueryInvalid`` or ``QueryFailed`` with one sentence."""

    def ask(self, query: str, rows_max: int | None) -> QueryResult:
        """Run one statement; the result has at most the first ``rows_max`` rows."""
        ...

    def names(self) -> list[str]:
        """The tables that a query may name."""
        ...

    def columns(self, name: str) -> list[ColumnInfo]:
        """The columns of one table."""
        ...


class LocalEngine:
    """Queries on a session of this process."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def ask(self, query: str, rows_max: int | None) -> QueryResult:
        return result_of(self._tables.sql(query), rows_max)

    def names(self) -> list[str]:
        return self._tables.names()

    def columns(self, name: str) -> list[ColumnInfo]:
        escaped = name.replace("`", "``")  # HTTP callers may run queries only, which are checked.
        fields = self._tables.sql(f"select * from `{escaped}`").schema.fields
        return [ColumnInfo(field.name, field.dataType.simpleString()) for field in fields]
