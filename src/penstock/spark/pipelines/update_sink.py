"""Publishes changed rows to a topic: Spark's *update* mode, which Python sinks do not support.

    each batch ──> foreachBatch ──> a batch write under the query's id and the batch's number

Spark rejects the mode for Python sinks, but not for a ``foreachBatch`` function.  The
function writes the batch with the writer for streams, so a repeated batch is published
once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from penstock.spark.runtime.connections import Address, address_of
from penstock.spark.runtime.spark_connect import register
from penstock.spark.sink.sink import TopicStreamWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

FORMAT: Final = "penstock_update"


@dataclass(frozen=True)
class Updates:
    """Publishes batches; called by ``foreachBatch``."""

    address: Address
    topic: str

    def __call__(self, batch: "DataFrame", version: int) -> None:
        """Publish the batch of this number, once."""
        register(batch.sparkSession, UpdateSink)
        writer = batch.write.format(FORMAT).mode("append")
        writer.options(**self.address.options, topic=self.topic, version=version).save()


class UpdateSink(DataSource):
    """The data source; internal, so its options are not validated."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def writer(self, schema: "StructType", overwrite: bool) -> "UpdateWriter":
        options = address_of(self.options).options | {"topic": self.options["topic"]}
        stream = TopicStreamWriter(options, schema, overwrite=overwrite)
        return UpdateWriter(stream, int(self.options["version"]))


class UpdateWriter(DataSourceArrowWriter):
    """Writes a batch as its stream would."""

    def __init__(self, stream: TopicStreamWriter, version: int) -> None:
        self._stream = stream
        self._version = version

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Any:
        return self._stream.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, when all tasks are done."""
        self._stream.commit(messages, self._version)
