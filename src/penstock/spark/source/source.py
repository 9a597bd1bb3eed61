"""The data source ``penstock``: topics as tables and streams, for reading and writing.

    spark.read.format("penstock").option("topic", "orders").load()
    spark.readStream.format("penstock").option("topic", "orders").load()

    options.py ──> scan.py ──> planning.py            plans ranges and splits them into slices
                     │
                     ▼
    reader.py, stream.py ──> slices.py ──> arrow.py   a task reads its slices

Spark finds it through the module ``pyspark_penstock``, in any session, and calls it in
its own processes.  The broker is not contacted before a query is planned.

Spark does not prune the columns of Python sources.  Name the columns with
``.schema("key binary, offset long")`` to avoid decoding the others.
"""

import re
from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from penstock.errors import InvalidValue
from penstock.spark.records.schema import PAYLOADS, ROW, spark_type
from penstock.spark.runtime.error_messages import hide_traceback
from penstock.spark.sink.sink import TopicStreamWriter, TopicWriter
from penstock.spark.source.avro import avro_type
from penstock.spark.source.options import EXTRA_COLUMNS, STATE_COLUMNS, SourceOptions, source_options
from penstock.spark.source.reader import TableReader
from penstock.spark.source.stream import StreamReader

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
        columns = (
            COLUMNS | {"value": value_type(options)} | {name: EXTRA_COLUMNS[name] for name in options.columns}
        )
        return ", ".join(
            f"`{name}` {kind}" if name in PAYLOADS or name in EXTRA_COLUMNS else f"`{name}` {kind} NOT NULL"
            for name, kind in columns.items()
        )

    @hide_traceback
    def reader(self, schema: StructType) -> TableReader:
        options = source_options(self.options)
        check_schema(schema, options)
        return TableReader(options, schema)

    @hide_traceback
    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name.
        options = source_options(self.options)
        check_schema(schema, options)
        return StreamReader(options, schema)

    @hide_traceback
    def writer(self, schema: StructType, overwrite: bool) -> TopicWriter:
        return TopicWriter(self.options, schema, overwrite=overwrite)

    @hide_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> TopicStreamWriter:  # noqa: N802 - Spark's name.
        return TopicStreamWriter(self.options, schema, overwrite=overwrite)


def value_type(options: SourceOptions) -> str:
    """The Spark type of the column ``value``."""
    schema = (options.value_schema or "").strip()
    if options.value_format in ("raw", "text"):
        return "binary" if options.value_format == "raw" else "string"
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


def check_schema(schema: StructType, options: SourceOptions) -> None:
    """Refuse columns that there are not, or of another type; values may be of any, if they are decoded."""
    known = COLUMNS | EXTRA_COLUMNS
    for field in schema.fields:
        found = field.dataType.simpleString()
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
