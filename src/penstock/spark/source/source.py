"""The data source ``penstock``: topics as tables and streams, for reading and writing.

    spark.read.format("penstock").option("topic", "orders").load()
    spark.readStream.format("penstock").option("topic", "orders").load()

    options.py ──> scan.py ──> planning.py            plans ranges and splits them into slices
                     │
                     ▼
    reader.py, stream.py ──> slices.py ──> arrow.py   a task reads its slices

Spark finds it through the module ``pyspark_penstock``, in any session, and calls it in
its own processes.  The broker is not contacted before a query is planned, except for the
schema of a topic (``value_format=registry``).

Spark does not prune the columns of Python sources.  Name the columns with
``.schema("key binary, offset long")`` to avoid decoding the others.
"""

import re
from collections.abc import Mapping
from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from penstock.errors import InvalidValue
from penstock.spark.records.extra_columns import EXTRA_COLUMNS, STATE_COLUMNS
from penstock.spark.records.schema import PAYLOADS, ROW, spark_type
from penstock.spark.runtime.connections import broker_at
from penstock.spark.runtime.error_messages import hide_traceback
from penstock.spark.sink.sink import TopicStreamWriter, TopicWriter
from penstock.spark.source.options import REGISTRY, SourceOptions, source_options
from penstock.spark.source.reader import TableReader
from penstock.spark.source.stream import StreamReader
from penstock.spark.source.value_decoding import avro_type
from penstock.spark.typed.field_columns import INVALID, same_type
from penstock.spark.typed.typed_topic import TypedTopic, typed_topic

COLUMNS: Final = {field.name: spark_type(field.type) for field in ROW}


class PenstockSource(DataSource):
    """What Spark makes of ``format("penstock")``."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "penstock"

    @hide_traceback
    def schema(self) -> str:
        """All columns, unless the program says which."""
        options = source_options(self.options)
        columns = COLUMNS | {"value": value_type(options)}
        typed = _typed(options)
        others = {} if typed is None else {name: each.type for name, each in typed.columns.items()}
        if typed is not None:
            others[INVALID] = "string"
        return table_ddl(columns, others | {name: EXTRA_COLUMNS[name] for name in options.columns})

    @hide_traceback
    def reader(self, schema: StructType) -> TableReader:
        options = source_options(self.options)
        typed = _typed(options)
        check_schema(schema, options, typed)
        return TableReader(options, schema, typed)

    @hide_traceback
    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name.
        options = source_options(self.options)
        typed = _typed(options)
        check_schema(schema, options, typed)
        return StreamReader(options, schema, typed)

    @hide_traceback
    def writer(self, schema: StructType, overwrite: bool) -> TopicWriter:
        return TopicWriter(self.options, schema, overwrite=overwrite)

    @hide_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> TopicStreamWriter:  # noqa: N802 - Spark's name.
        return TopicStreamWriter(self.options, schema, overwrite=overwrite)


def table_ddl(own: Mapping[str, str], others: Mapping[str, str]) -> str:
    """Columns of a topic and further ones, which may be null, as Spark writes schemas."""
    columns = [(name, kind if name in PAYLOADS else f"{kind} NOT NULL") for name, kind in own.items()]
    quoted = ((name.replace("`", "``"), kind) for name, kind in (*columns, *others.items()))
    return ", ".join(f"`{name}` {kind}" for name, kind in quoted)


def _typed(options: SourceOptions) -> TypedTopic | None:
    """The fields of the topic's schema, if they are asked for."""
    if options.value_format != REGISTRY:
        return None
    [topic] = options.topics
    found = typed_topic(broker_at(options.address), topic, options.columns)
    if found is None:
        why = (
            f"topic {topic!r} has no schema whose values have fields; register one, or choose another format"
        )
        raise InvalidValue(name="value_format", value=REGISTRY, why=why)
    return found


def value_type(options: SourceOptions) -> str:
    """The Spark type of the column ``value``."""
    schema = (options.value_schema or "").strip()
    if options.value_format in ("raw", "text", REGISTRY):
        return "string" if options.value_format == "text" else "binary"
    if options.value_format == "avro":
        return avro_type(schema)
    if not schema:
        raise InvalidValue(
            name="value_schema",
            value=None,
            why="value_format=json needs a schema, such as 'id long, name string'",
        )
    return schema if re.match(r"(?i)(struct|array|map)\s*<", schema) else f"struct<{schema}>"


def _check_decodable(kind: DataType) -> None:
    """Refuse a type that a value cannot be decoded to, wherever it is in a schema."""
    if isinstance(kind, VariantType):
        why = "read the value as text, with value_format=text, and use parse_json(value) in the query"
        raise InvalidValue(name="value_schema", value="variant", why=why)
    if isinstance(kind, StructType):
        for field in kind.fields:
            _check_decodable(field.dataType)
    elif isinstance(kind, ArrayType):
        _check_decodable(kind.elementType)
    elif isinstance(kind, MapType):
        _check_decodable(kind.valueType)


def check_schema(schema: StructType, options: SourceOptions, typed: TypedTopic | None = None) -> None:
    """Refuse columns that there are not, or of another type; values may be of any, if they are decoded."""
    known = COLUMNS | EXTRA_COLUMNS
    if typed is not None:
        extra = {name: EXTRA_COLUMNS[name] for name in options.columns}
        known = (
            COLUMNS | {name: each.type for name, each in typed.columns.items()} | {INVALID: "string"} | extra
        )
    for field in schema.fields:
        found = field.dataType.simpleString()
        if typed is not None and field.name in typed.columns:
            if not same_type(found, known[field.name]):
                why = f"the topic's schema says {known[field.name]}; if it has changed, load the table again"
                raise InvalidValue(name=f"the type of {field.name}", value=found, why=why)
            continue
        if field.name not in known:
            raise InvalidValue(name="column", value=field.name, why=f"the columns are {', '.join(known)}")
        if field.name in STATE_COLUMNS and options.group is None:
            raise InvalidValue(name="column", value=field.name, why="it requires the option group")
        if field.name == "value" and options.value_format in ("json", "avro"):
            _check_decodable(field.dataType)
            continue
        if found != known[field.name] and (field.name not in PAYLOADS or found != "string"):
            why = f"it must be {known[field.name]}"
            raise InvalidValue(name=f"the type of {field.name}", value=found, why=why)
