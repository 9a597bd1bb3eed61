"""A typed topic for a reader: its schema, and its columns besides those of every topic.

    partition, offset, timestamp, key, value, ...    as in every topic; the value as it was published
    customer, total, ...                             the fields of the value
    invalid                                          why the value is not one of the schema; null if it is

With the column ``invalid`` a reader gets all rows; in invalid ones all fields are null.  Without it, it
gets the valid rows.  So no row is ever null without a reason.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from penstock.spark.records.schema import ROW
from penstock.spark.runtime.connections import Address
from penstock.spark.typed.field_columns import INVALID, FieldColumn, field_columns
from penstock.spark.typed.topic_schema import TopicSchema, topic_schema, written_with

if TYPE_CHECKING:
    from penstock.api.broker import Broker
    from penstock.spark.typed.typed_rows import TypedRows


@dataclass(frozen=True, slots=True)
class TypedTopic:
    """The part of a topic's schema that Spark sends to its tasks."""

    schema: TopicSchema
    columns: dict[str, FieldColumn] = field(default_factory=dict)  # Of the fields, by their names.

    def rows(self, address: Address) -> "TypedRows":
        """Decodes the values of the topic."""
        from penstock.spark.typed.typed_rows import TypedRows

        return TypedRows(self.schema.parsed(), self.columns, partial(written_with, address))


def typed_topic(broker: "Broker", topic: str, extra: Iterable[str] = ()) -> TypedTopic | None:
    """A topic with its schema; None if it has none, or one whose values have no fields.

    ``extra`` are the names of further columns, which fields cannot have.
    """
    schema = topic_schema(broker, topic)
    if schema is None:
        return None
    columns = field_columns(schema.parsed(), (*ROW.names, INVALID, *extra))
    return TypedTopic(schema, columns) if columns else None
