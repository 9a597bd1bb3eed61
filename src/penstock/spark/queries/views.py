"""Topics as Spark SQL views over lake and log, and views of the broker's state.

    orders               every message, from the oldest in the lake to the newest in the log
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

Spark 4.3 caches the plan of a source, including pushed filters, for all scans of it.  So
filters may be pushed down only in a query that scans its source once and whose source is
new: ``narrow``.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.config.broker import DEAD_LETTER_SUFFIX
from penstock.errors import QueryInvalid
from penstock.spark.runtime.connections import SERVERS, Address, address_of
from penstock.spark.runtime.error_messages import missing_name, penstock_error, unlogged
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
    from pyspark.sql import DataFrame, SparkSession

    Makers = dict[str, Callable[[], DataFrame]]  # By name, what makes the table.

JOURNAL: Final = "__journal"
DEAD_LETTERS: Final = "__dlq"
GROUPS: Final = "__groups"
SCHEDULES: Final = "__schedules"
GAPS: Final = "__gaps"
MADE: Final = "_tables"  # The folder of the lake where pipelines put tables that are no topic's.
PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
# In Spark's text of a plan: a source that is read, and a part of a query that may be used several times.
SCAN: Final = "RelationV2["
SHARED: Final = "CTERelation"
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

    def __init__(self, spark: "SparkSession", address: Address) -> None:
        self._spark = spark
        self._address = address
        self._made: set[str] = set()  # Views that ``sql`` has made, in lower case.
        from penstock.spark.queries import broker_tables  # Only now: it loads PySpark.

        broker_tables.register(spark)

    # What there is.

    def names(self) -> list[str]:
        """Every name that a query may use, sorted."""
        return sorted(self._makers())

    def _makers(self) -> "Makers":
        with self._address.connect() as broker:
            topics = broker.topics()
            lake = broker.stats().lake
        makers: Makers = {
            GROUPS: partial(self._facts, "groups"),
            SCHEDULES: partial(self._facts, "schedules"),
            GAPS: partial(self._facts, "gaps"),
        }
        for name, path in _lake_tables(lake).items():
            makers[name] = partial(_lake_table, self._spark, path)
        for topic in topics:
            makers[topic + JOURNAL] = partial(self._facts, "journal", topic)
            makers[topic + DEAD_LETTERS] = partial(self._dead_letters, topic)
        for topic in topics:  # After the views of all: a topic of that name comes first.
            makers[topic] = partial(self._messages, topic)
        return makers

    # Making them.

    def create(self) -> None:
        """Create or replace all views, except for names that differ only in case."""
        makers = self._makers()
        counts = Counter(name.lower() for name in makers)
        for name, make in makers.items():
            if counts[name.lower()] == 1:
                make().createOrReplaceTempView(f"`{name}`")

    def sql(self, query: str) -> "DataFrame":
        """The answer to a query; makes the views that it names, and says in one sentence what is wrong."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        makers = self._makers()
        known = {name.lower() for name in makers}
        self._forget()
        while True:
            try:
                with unlogged():
                    return self._spark.sql(query)
            except (PySparkException, Py4JError) as error:
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

    def narrow(self, frame: "DataFrame") -> None:
        """Have the conditions of a frame that ``sql`` gave, and that runs next, choose what is read."""
        if hasattr(self._spark, "_jsc"):  # Spark Connect does not show its plans.
            plan = frame._jdf.queryExecution().analyzed().toString()  # noqa: SLF001 - there is no other way.
            once = plan.count(SCAN) == 1 and SHARED not in plan
            self._spark.conf.set(PUSHDOWN, str(once).lower())

    def _forget(self) -> None:
        """Drop what was made for the query before: its dead letters may have been none, and are some now."""
        while self._made:
            self._spark.catalog.dropTempView(self._made.pop())

    # The tables themselves.

    def _messages(self, topic: str) -> "DataFrame":
        reader = self._spark.read.format("penstock")
        return reader.options(**self._address.options, topic=topic).load()

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


def _lake_tables(lake: str) -> dict[str, str]:
    """By name, where the tables of the lake are: those that pipelines made, and of topics that are gone."""
    if not lake:
        return {}
    from penstock.spark.lake import storage  # Only now: it loads PyArrow.

    location = storage.located(lake)
    found = {name: f"{location}/{name}" for name in storage.folders_in(location) if not name.startswith("_")}
    made = f"{location}/{MADE}"
    return found | {name: f"{made}/{name}" for name in storage.folders_in(made)}


def _lake_table(spark: "SparkSession", path: str) -> "DataFrame":
    """The files that are a table of the lake now; a later commit is seen by a later call."""
    import pyarrow as pa  # Only now, as are the others: `import penstock.spark` is to stay quick.
    from deltalake import DeltaTable
    from pyspark.sql.pandas.types import from_arrow_schema

    table = DeltaTable(path)
    if files := table.file_uris():
        return spark.read.option("basePath", path).parquet(*files)
    return spark.createDataFrame([], from_arrow_schema(pa.schema(table.schema().to_arrow())))
