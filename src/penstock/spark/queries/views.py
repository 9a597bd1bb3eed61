"""Topics as Spark SQL views over lake and log, and views of the broker's state.

    orders               every message, from the oldest in the lake to the newest in the log; if the
                         topic has a schema, also the fields of its values (``spark/typed``)
    orders__invalid      of a topic with a schema: messages whose values do not match it, and why
    orders__journal      deliveries, attempts, errors and acks
    orders__dlq          dead letters, with the reasons as columns
    __groups             every group: lag, verdict, counts
    __schedules          scheduled messages
    __gaps               ranges that readers skipped because neither log nor lake has them
    any other name       a table of the lake that is not a topic's, such as a rollup

A topic takes precedence over a view of the same name.  As usual in SQL, names are
case-insensitive and need backticks if they contain dots or dashes.

Creating a view takes about 50 ms.  ``Tables.sql`` creates only the views that a query
names, for each query: it runs the query and creates what Spark reports as missing.
``tables`` creates all views once, for programs that use ``spark.sql``; Spark fixes what a
view reads when it is first used, so call it again to see newer messages.

Of a large topic ``Tables.sql`` reads only the columns and offsets that the query needs
(``narrowing.py``): it creates its views once more then, which costs 0.1 s.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.config.broker import DEAD_LETTER_SUFFIX
from penstock.errors import QueryInvalid
from penstock.model.schemas import value_subject
from penstock.spark.queries.json_values import is_json_path_refused, parsing_json
from penstock.spark.runtime.connections import SERVERS, Address, address_of
from penstock.spark.runtime.error_messages import missing_name, penstock_error, unlogged
from penstock.spark.session import BINARY_AS_TEXT, BINARY_STYLE
from penstock.spark.source.options import WITHIN
from penstock.spark.source.regions import encode
from penstock.wire.headers import (
    ATTEMPTS,
    DEATH_REASON,
    ERROR,
    ERROR_CLASS,
    ERROR_FINGERPRINT,
    ERROR_MESSAGE,
    FAILED_GROUP,
    FIRST_FAILED_AT,
    LAST_FAILED_AT,
    SOURCE_OFFSET,
    SOURCE_PARTITION,
    SOURCE_TOPIC,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

    from penstock.api.broker import Broker
    from penstock.spark.queries.narrowing import NeededPart
    from penstock.spark.typed.typed_topic import TypedTopic

    Makers = dict[str, Callable[[], DataFrame]]  # By name, what makes the table.

JOURNAL: Final = "__journal"
INVALID_ROWS: Final = "__invalid"
DEAD_LETTERS: Final = "__dlq"
INVALID_COLUMNS: Final = (
    "partition int, offset bigint, timestamp timestamp, key binary, invalid string, value binary"
)
GROUPS: Final = "__groups"
SCHEDULES: Final = "__schedules"
GAPS: Final = "__gaps"
MADE: Final = "_tables"  # The folder of the lake where pipelines put tables that are no topic's.
NARROWED_BYTES_MIN: Final = 16 << 20  # Of a topic; smaller ones are read in a tenth of a second.
# Spark takes ``where offset in (3, 7)`` for its clause OFFSET and a function called "in".
LIMIT_REFUSED: Final = "INVALID_LIMIT_LIKE_EXPRESSION"
_OFFSET_IN: Final = re.compile(r"\b(where\s+)offset(\s+in\s*\()", re.IGNORECASE)
VIEWS_MAX: Final = 100  # That one query may name.

# Of a dead letter: the columns that its headers give, after its own.
LETTER: Final = (
    ("source_partition", f"cast(cast(headers['{SOURCE_PARTITION}'] as string) as int)"),
    ("source_offset", f"cast(cast(headers['{SOURCE_OFFSET}'] as string) as bigint)"),
    ("group", f"cast(headers['{FAILED_GROUP}'] as string)"),
    ("attempts", f"cast(cast(headers['{ATTEMPTS}'] as string) as int)"),
    ("reason", f"cast(headers['{DEATH_REASON}'] as string)"),
    ("error", f"cast(headers['{ERROR}'] as string)"),
    ("error_class", f"cast(headers['{ERROR_CLASS}'] as string)"),
    ("error_message", f"cast(headers['{ERROR_MESSAGE}'] as string)"),
    ("fingerprint", f"cast(headers['{ERROR_FINGERPRINT}'] as string)"),
    ("first_failed", f"timestamp_millis(cast(cast(headers['{FIRST_FAILED_AT}'] as string) as bigint))"),
    ("last_failed", f"timestamp_millis(cast(cast(headers['{LAST_FAILED_AT}'] as string) as bigint))"),
)


def tables(
    spark: "SparkSession",
    servers: str = SERVERS,
    *,
    key: str | None = None,
    user: str | None = None,
    password: str | None = None,
) -> "Tables":
    """Create a view for each topic of a broker, and for the broker's state.

    ``key``, or ``user`` and ``password``: credentials; default: environment variable PENSTOCK_KEY.
    """
    given = {"servers": servers, "key": key, "user": user, "password": password}
    made = Tables(spark, address_of({name: text for name, text in given.items() if text is not None}))
    made.create()
    return made


class Tables:
    """The tables of one broker, in one session."""

    def __init__(self, spark: "SparkSession", address: Address, *, lake_tables: bool = True) -> None:
        """``lake_tables``: also the tables of the lake that are no topic's."""
        self._spark = spark
        self._address = address
        self._lake_tables = lake_tables
        self._made: set[str] = set()  # Views that ``sql`` has made, in lower case.
        self._topics: set[str] = set()  # That these views read.
        self._needed: dict[str, NeededPart] = {}  # By topic, while views are made for one query.
        from penstock.spark.queries import broker_tables  # Only now: it loads PySpark.

        broker_tables.register(spark)
        if spark.conf.get(BINARY_STYLE, None) is None:
            spark.conf.set(BINARY_STYLE, BINARY_AS_TEXT)

    # Names.

    def names(self) -> list[str]:
        """Every name that a query may use, sorted."""
        return sorted(self._makers())

    def _makers(self) -> "Makers":
        from penstock.spark.reports import result_tables  # Only now: it loads PySpark.

        with self._address.connect() as broker:
            topics = broker.topics()
            subjects = {each.subject for each in broker.schemas()}
            lake = broker.stats().lake
        makers: Makers = {
            GROUPS: partial(self._facts, "groups"),
            SCHEDULES: partial(self._facts, "schedules"),
            GAPS: partial(self._facts, "gaps"),
        }
        for name, path in _lake_tables(lake if self._lake_tables else "").items():
            makers[name] = partial(result_tables.read, self._spark, path)
        for topic in topics:
            makers[topic + JOURNAL] = partial(self._facts, "journal", topic)
            makers[topic + DEAD_LETTERS] = partial(self._dead_letters, topic)
            if value_subject(topic) in subjects:
                makers[topic + INVALID_ROWS] = partial(self._invalid, topic)
        for topic in topics:  # After the views of all: a topic of that name comes first.
            makers[topic] = partial(self._messages, topic)
        return makers

    # Creating views.

    def create(self) -> None:
        """Create or replace all views, except for names that differ only in case."""
        makers = self._makers()
        counts = Counter(name.lower() for name in makers)
        for name, make in makers.items():
            if counts[name.lower()] == 1:
                make().createOrReplaceTempView(f"`{name}`")

    def sql(self, query: str) -> "DataFrame":
        """The answer to a query; makes the views that it names, and says in one sentence what is wrong."""
        makers = self._makers()
        self._forget()
        frame = self._made_and_run(query, makers)
        self._needed = self._needed_by(frame)
        if not self._needed:
            return frame
        try:
            self._forget()
            return self._made_and_run(query, makers)
        finally:
            self._needed = {}

    def _made_and_run(self, query: str, makers: "Makers") -> "DataFrame":
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        known = {name.lower() for name in makers}
        while True:
            try:
                with unlogged():
                    return self._spark.sql(query)
            except (PySparkException, Py4JError) as error:
                understood = rewritten(query, error)
                if understood != query:
                    query = understood
                    continue
                name = ".".join(missing_name(error) or []).lower()
                if name not in known or name in self._made or len(self._made) == VIEWS_MAX:
                    raise penstock_error(error, makers) from None
            self._make(name, makers)

    def _make(self, name: str, makers: "Makers") -> None:
        same = sorted(each for each in makers if each.lower() == name)
        if len(same) > 1:
            raise QueryInvalid(
                why=f"{' and '.join(same)} are the same name in SQL; read each with the format penstock"
            )
        makers[same[0]]().createOrReplaceTempView(f"`{name}`")
        self._made.add(name)

    def _needed_by(self, frame: "DataFrame") -> "dict[str, NeededPart]":
        """The parts of large topics that a query needs, if less than everything."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from penstock.spark.queries.narrowing import needed_parts  # Only now: it loads PySpark.

        if not hasattr(self._spark, "_jsc"):  # Spark Connect does not show its plans.
            return {}
        with self._address.connect() as broker:
            large = {topic for topic in self._topics if _is_large(broker, topic)}
        if not large:
            return {}
        try:
            with unlogged():
                parts = needed_parts(frame._jdf.queryExecution().optimizedPlan())  # noqa: SLF001
        except (PySparkException, Py4JError):
            return {}  # Running the query reports the error.
        return {topic: part for topic, part in parts.items() if topic in large}

    def _forget(self) -> None:
        """Drop the views of the previous query, because new messages may have arrived."""
        self._topics.clear()
        while self._made:
            self._spark.catalog.dropTempView(self._made.pop())

    # The tables themselves.

    def _messages(self, topic: str) -> "DataFrame":
        from penstock.spark.source.source import COLUMNS, table_ddl  # Only now: it loads PySpark.

        reader, typed = self._reader(topic), self._typed(topic)
        fields = {} if typed is None else {name: each.type for name, each in typed.columns.items()}
        if typed is not None:
            reader = reader.options(value_format="registry")
        part = self._needed.get(topic)
        if part is None or part.columns is None:
            return reader.schema(table_ddl(COLUMNS, fields)).load()
        wanted = part.columns or {"offset"}  # One column is needed for the number of rows.
        own, others = (
            {name: each for name, each in of.items() if name in wanted} for of in (COLUMNS, fields)
        )
        return with_nulls(reader.schema(table_ddl(own, others)).load(), COLUMNS | fields)

    def _invalid(self, topic: str) -> "DataFrame":
        if self._typed(topic) is None:  # Without fields, no value is read by its schema.
            rows = self._spark.createDataFrame([], INVALID_COLUMNS)
        else:
            reader = self._reader(topic).options(value_format="registry").schema(INVALID_COLUMNS)
            rows = reader.load().where("invalid is not null")
        return rows.withColumnRenamed("invalid", "reason")

    def _reader(self, topic: str) -> "DataFrameReader":
        self._topics.add(topic)
        reader = self._spark.read.format("penstock").options(**self._address.options, topic=topic)
        part = self._needed.get(topic)
        return reader if part is None else reader.option(WITHIN, encode(part.region))

    def _typed(self, topic: str) -> "TypedTopic | None":
        from penstock.spark.typed.typed_topic import typed_topic  # Only now: it loads PyArrow.

        with self._address.connect() as broker:
            return typed_topic(broker, topic)

    def _facts(self, of: str, topic: str = "") -> "DataFrame":
        reader = self._spark.read.format("penstock_facts")
        return reader.options(**self._address.options, of=of, topic=topic).load()

    def _dead_letters(self, topic: str) -> "DataFrame":
        from penstock.spark.records.schema import ROW, ddl  # Only now: it loads PyArrow.

        with self._address.connect() as broker:
            settings = broker.describe_topic(topic).settings
            location = settings.dead_letter_topic or topic + DEAD_LETTER_SUFFIX
            there = location in broker.topics()
        letters = self._messages(location) if there else self._spark.createDataFrame([], ddl(ROW))
        columns = [f"{text} as `{name}`" for name, text in LETTER]
        mine = letters.where(f"cast(headers['{SOURCE_TOPIC}'] as string) = '{topic}'")
        return mine.selectExpr(*(name for name in letters.columns if name != "headers"), *columns, "headers")


def rewritten(query: str, error: Exception) -> str:
    """A query that Spark has refused, as it was meant."""
    if is_json_path_refused(error):
        return parsing_json(query)
    if str(getattr(error, "getCondition", str)()).startswith(LIMIT_REFUSED):
        return _OFFSET_IN.sub(r"\1`offset`\2", query)
    return query


def with_nulls(rows: "DataFrame", columns: Mapping[str, str]) -> "DataFrame":
    """Rows with all of these columns; missing ones are null, so that names keep their meaning."""
    from pyspark.sql import functions

    there = set(rows.columns)
    return rows.select(
        *(
            functions.col("`" + name.replace("`", "``") + "`")
            if name in there
            else functions.lit(None).cast(kind).alias(name)
            for name, kind in columns.items()
        )
    )


def _is_large(broker: "Broker", topic: str) -> bool:
    """Whether a topic is large enough to plan a query twice in order to read only a part."""
    partitions = broker.describe_topic(topic).partitions
    return (
        any(each.start for each in partitions) or sum(each.bytes for each in partitions) >= NARROWED_BYTES_MIN
    )


def _lake_tables(lake: str) -> dict[str, str]:
    """The locations of lake tables by name: those of pipelines, and those of deleted topics."""
    if not lake:
        return {}
    from penstock.spark.lake import storage  # Only now: it loads PyArrow.

    location = storage.located(lake)
    found = {name: f"{location}/{name}" for name in storage.folders_in(location) if not name.startswith("_")}
    made = f"{location}/{MADE}"
    return found | {name: f"{made}/{name}" for name in storage.folders_in(made)}
