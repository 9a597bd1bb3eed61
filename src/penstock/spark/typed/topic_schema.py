"""The schema of a topic's values: the latest version of the subject ``TOPIC-value``.

    driver:  topic_schema(broker, topic) ── with the reader ──> executor:  .parsed(), written_with(id)

The version that a query is planned with is sent along with everything it refers to, so all tasks of a
query, and a stream until it is restarted, read by the same one.  The versions that values were written with
are requested by id when they are first seen, and cached: the schema of an id never changes.
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.errors import SchemaInvalid, SubjectNotFound
from penstock.model.schemas import SchemaInfo, value_subject
from penstock.schemas.formats import ParsedSchema, parse
from penstock.schemas.registry import REFERENCE_DEPTH_MAX
from penstock.spark.runtime.connections import Address, broker_at

if TYPE_CHECKING:
    from penstock.api.broker import Broker

KEPT_MAX: Final = 1000  # Schemas of one process.

_kept: Final[dict[tuple[int, Address, int], ParsedSchema]] = {}


@dataclass(frozen=True, slots=True)
class TopicSchema:
    """One version of a schema, with all that it refers to."""

    info: SchemaInfo
    references: tuple[tuple[str, "TopicSchema"], ...] = ()  # By the name that the text uses.

    def parsed(self) -> ParsedSchema:
        references = {name: each.parsed() for name, each in self.references}
        return parse(self.info.type, self.info.schema, references, self.info.descriptor)


def topic_schema(broker: "Broker", topic: str) -> TopicSchema | None:
    """The current schema of a topic's values; None if there is none."""
    try:
        return _with_references(broker, broker.schema(value_subject(topic)), 0)
    except SubjectNotFound:
        return None


def written_with(address: Address, schema_id: int) -> ParsedSchema | None:
    """The schema of an id; None: there is no such id."""
    place = (os.getpid(), address, schema_id)
    if place not in _kept:
        broker = broker_at(address)
        found = broker.schema_uses(schema_id)
        if not found:
            return None  # It may be registered later.
        if len(_kept) >= KEPT_MAX:
            _kept.clear()
        _kept[place] = _with_references(broker, found[0], 0).parsed()
    return _kept[place]


def _with_references(broker: "Broker", info: SchemaInfo, depth: int) -> TopicSchema:
    if depth > REFERENCE_DEPTH_MAX:
        raise SchemaInvalid(
            type=info.type, why=f"it has more than {REFERENCE_DEPTH_MAX} levels of references"
        )
    references = tuple(
        (
            each.name,
            _with_references(broker, broker.schema(each.subject, each.version, deleted=True), depth + 1),
        )
        for each in info.references
    )
    return TopicSchema(info, references)
