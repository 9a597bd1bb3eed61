"""Messages as a data frame: what ``broker.read`` and ``broker.peek`` return.

    broker.read("orders", limit=1000).to_pandas()

    topic, partition, offset, timestamp (UTC), key, value, headers, lane

The columns are those of a topic in Spark and in the lake (``row_schema``).  PyArrow, pandas
and Polars are imported when a frame is asked for; Spark is not needed.  In a notebook, the
messages are shown as a table with values as text.
"""

from typing import TYPE_CHECKING, Any

from penstock.errors import ExtraMissing
from penstock.model.message import StoredMessage
from penstock.model.tables import html
from penstock.wire.records import lane_of

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


def row_schema() -> "pyarrow.Schema":
    """The columns of a message; the owner of every schema of messages."""
    pa = _pyarrow()
    return pa.schema(
        {
            "topic": pa.string(),
            "partition": pa.int32(),
            "offset": pa.int64(),
            "timestamp": pa.timestamp("us", "UTC"),
            "key": pa.binary(),
            "value": pa.binary(),
            "headers": pa.map_(pa.string(), pa.binary()),
            "lane": pa.int32(),
        }
    )


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise ExtraMissing(what="PyArrow", extra="arrow") from None
    return pyarrow


class MessageList(list[StoredMessage]):
    """Stored messages, in order."""

    def to_arrow(self) -> "pyarrow.Table":
        """A row for each message; where a header repeats, the last one."""
        pa, schema = _pyarrow(), row_schema()
        columns = (
            [message.topic for message in self],
            [message.partition for message in self],
            [message.offset for message in self],
            [message.timestamp * 1000 for message in self],
            [message.key for message in self],
            [message.record.value for message in self],
            [list(dict(message.raw_headers).items()) for message in self],
            [lane_of(message.attributes) for message in self],
        )
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def to_pandas(self) -> "pandas.DataFrame":
        """The rows as a pandas data frame; pandas must be installed."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> "polars.DataFrame":
        """The rows as a Polars data frame; Polars must be installed."""
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame), "a table is no series"
        return frame

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        names = ("id", "published", "key", "value", "headers")
        return html.table(names, map(_row, self[: html.SHOWN_MAX]), len(self) - html.SHOWN_MAX)


def _row(message: StoredMessage) -> tuple[str, ...]:
    return (
        message.id,
        f"{message.published_at:%Y-%m-%d %H:%M:%S}",
        html.bytes_text(message.key),
        html.bytes_text(message.record.value),
        ", ".join(f"{name}: {value}" for name, value in message.headers.items()),
    )
