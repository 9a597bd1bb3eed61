"""The options of a reader of the format ``penstock``, validated before the broker is contacted.

    servers                 address of the broker
    key; user, password     credentials (``connections.py``)
    topic, topic_pattern    one topic, several ("a,b"), or all whose name matches a regular expression
    starting, ending        "earliest", "latest", or JSON: {"0": 17}; for several topics {"orders": {"0": 17}}
    from_time, to_time      instead of the two above: from one time (inclusive) to another (exclusive)
    partition_records       offsets that one task reads
    max_records_per_trigger, max_bytes_per_trigger     limits of one micro-batch
    group                   the group as which a stream commits, or whose states ``columns`` shows
    value_format            raw, text, json or avro; values that cannot be decoded are null
    value_schema            for json as "id long, name string", for avro as JSON
    columns                 additional columns: id; attempts and state in the group; for a stream the horizon
    in_step                 a name; streams with the same name read the same micro-batches
                            (``shared_batches.py``)
    lake                    location of the lake; default: the broker's
    on_gap                  error, or skip: record missing offsets and continue after them

Times are RFC 3339 text.  Unknown options are an error, because they are usually misspelt.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from penstock.errors import InvalidValue
from penstock.spark.runtime.connections import LOGIN, Address, address_of
from penstock.types import check_name, instant_ms
from penstock.wire.records import OFFSET_MAX

# Of offsets: by topic ("": the only one) and partition.
Place = Literal["earliest", "latest"] | dict[str, dict[int, int]]

PARTITION_RECORDS: Final = 1_000_000  # About a second of work: worth a task, and quickly redone.
# And their types.
EXTRA_COLUMNS: Final = {"id": "string", "attempts": "int", "state": "string", "horizon": "timestamp"}
STATE_COLUMNS: Final = ("attempts", "state")  # These need a group.
STREAM_COLUMNS: Final = ("horizon",)  # And these a stream.
VALUE_FORMATS: Final = ("raw", "text", "json", "avro")
NAMES: Final = (
    "servers", *LOGIN, "topic", "topic_pattern", "starting", "ending", "from_time", "to_time",
    "partition_records", "max_records_per_trigger", "max_bytes_per_trigger", "group", "value_format",
    "value_schema", "columns", "lake", "on_gap", "in_step",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of one reader."""

    address: Address
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    starting: Place | None = None  # None: not said, which for a table is earliest and for a stream latest.
    ending: Place = "latest"
    from_ms: int | None = None
    to_ms: int | None = None
    partition_records: int = PARTITION_RECORDS
    max_records: int | None = None
    max_bytes: int | None = None
    group: str | None = None
    value_format: str = "raw"
    value_schema: str | None = None
    columns: tuple[str, ...] = ()
    lake: str | None = None
    on_gap: str = "error"
    in_step: str | None = None


def source_options(given: Mapping[str, str]) -> SourceOptions:
    """The options as a program wrote them, checked."""
    texts = {name.lower(): value for name, value in given.items()}
    for name in texts:
        if name not in NAMES:
            raise InvalidValue(name="option", value=name, why=f"the options are {', '.join(NAMES)}")
    options = SourceOptions(
        address=address_of(texts),
        topics=_topics(texts),
        pattern=_pattern(texts),
        starting=_place("starting", texts["starting"]) if "starting" in texts else None,
        ending=_place("ending", texts["ending"]) if "ending" in texts else "latest",
        from_ms=_time("from_time", texts),
        to_ms=_time("to_time", texts),
        partition_records=_number("partition_records", texts) or PARTITION_RECORDS,
        max_records=_number("max_records_per_trigger", texts),
        max_bytes=_number("max_bytes_per_trigger", texts),
        group=check_name("group", texts["group"]) if "group" in texts else None,
        value_format=_choice("value_format", texts, VALUE_FORMATS),
        value_schema=texts.get("value_schema"),
        columns=_columns(texts),
        lake=texts.get("lake"),
        on_gap=_choice("on_gap", texts, ("error", "skip")),
        in_step=texts.get("in_step"),
    )
    _check_together(options, texts)
    return options


def _check_together(options: SourceOptions, texts: Mapping[str, str]) -> None:
    if bool(options.topics) == (options.pattern is not None):
        raise InvalidValue(name="topic", value=texts.get("topic"), why="set either topic or topic_pattern")
    for time, place in (("from_time", "starting"), ("to_time", "ending")):
        if time in texts and place in texts:
            raise InvalidValue(name=time, value=texts[time], why=f"set either {time} or {place}, not both")
    if options.from_ms is not None and options.to_ms is not None and options.from_ms > options.to_ms:
        raise InvalidValue(name="to_time", value=texts["to_time"], why="it is before from_time")
    if options.group is None and any(name in STATE_COLUMNS for name in options.columns):
        raise InvalidValue(name="columns", value=texts["columns"], why="it requires the option group")
    if options.value_schema is None and options.value_format == "avro":
        raise InvalidValue(
            name="value_schema",
            value=None,
            why="value_format=avro needs the schema that the values were written with",
        )
    several = options.pattern is not None or len(options.topics) > 1
    for name, told in (("starting", options.starting), ("ending", options.ending)):
        if several and isinstance(told, dict) and "" in told:
            why = 'with several topics, write it as {"topic": {"partition": offset}}'
            raise InvalidValue(name=name, value=texts[name], why=why)


def _topics(texts: Mapping[str, str]) -> tuple[str, ...]:
    names = [name.strip() for name in texts.get("topic", "").split(",")] if "topic" in texts else []
    return tuple(dict.fromkeys(check_name("topic", name) for name in names))


def _pattern(texts: Mapping[str, str]) -> str | None:
    pattern = texts.get("topic_pattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            why = f"it is not a valid regular expression ({error})"
            raise InvalidValue(name="topic_pattern", value=pattern, why=why) from None
    return pattern


def _place(name: str, text: str) -> Place:
    if text in ("earliest", "latest"):
        return cast(Place, text)
    why = 'it must be earliest, latest, {"partition": offset} or {"topic": {"partition": offset}}'
    try:
        found = json.loads(text)
        offsets = found if found and all(isinstance(each, dict) for each in found.values()) else {"": found}
        return {topic: _offsets(each) for topic, each in offsets.items()}
    except (ValueError, AttributeError):
        raise InvalidValue(name=name, value=text, why=why) from None


def _offsets(given: dict[str, Any]) -> dict[int, int]:
    offsets = {int(partition): offset for partition, offset in given.items()}
    for offset in offsets.values():
        if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= OFFSET_MAX:
            raise ValueError(offset)
    return offsets


def _time(name: str, texts: Mapping[str, str]) -> int | None:
    return instant_ms(name, texts[name]) if name in texts else None


def _number(name: str, texts: Mapping[str, str]) -> int | None:
    if name not in texts:
        return None
    text = texts[name].replace("_", "")
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise InvalidValue(name=name, value=texts[name], why="it must be an integer of at least 1")
    return int(text)


def _choice(name: str, texts: Mapping[str, str], choices: tuple[str, ...]) -> str:
    chosen = texts.get(name, choices[0])
    if chosen not in choices:
        raise InvalidValue(name=name, value=chosen, why=f"it must be one of {', '.join(choices)}")
    return chosen


def _columns(texts: Mapping[str, str]) -> tuple[str, ...]:
    names = [name.strip() for name in texts.get("columns", "").split(",") if name.strip()]
    for name in names:
        if name not in EXTRA_COLUMNS:
            raise InvalidValue(name="columns", value=name, why=f"the columns are {', '.join(EXTRA_COLUMNS)}")
    return tuple(dict.fromkeys(names))
