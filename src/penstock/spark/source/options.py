"""The options of a reader of the format ``penstock``, validated before the broker is contacted.

    servers                 address of the broker
    key; user, password     credentials (``connections.py``)
    topic, topic_pattern    one topic, several ("a,b"), or all whose name matches a regular expression
    starting, ending        "earliest", "latest", or JSON: {"0": 17}; for several topics {"orders": {"0": 17}}
                            -2 is the earliest offset of a partition, -1 the latest
    from_time, to_time      instead of the two above: from one time (inclusive) to another (exclusive);
                            by topic or partition as JSON: {"orders": TIME, "returns": {"0": TIME}}
    partition_records       offsets that one task reads
    max_records_per_trigger, max_bytes_per_trigger     limits of one micro-batch
    min_records_per_trigger, max_trigger_delay         a micro-batch waits for so many records, so long
    group                   the group as which a stream commits, or whose states ``columns`` shows
    value_format            raw, text, json or avro; values that cannot be decoded are null.
                            registry: the fields of the topic's schema as columns (``spark/typed``)
    value_schema            for json as "id long, name string", for avro as JSON
    columns                 additional columns: id; header_list; attempts and state in the group; for a
                            stream the horizon
    in_step                 a name; streams with the same name read the same micro-batches
                            (``shared_batches.py``)
    lake                    location of the lake; default: the broker's
    on_gap                  error, or skip: record missing offsets and continue after them
    within                  the rows that a query needs of a table (``regions.py``); set by ``penstock sql``

Times are RFC 3339 text, or milliseconds since 1970.  Unknown options are an error, because
they are usually misspelt.  The names of Spark's Kafka connector are accepted as well
(``runtime/option_names.py``).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from penstock.errors import InvalidValue
from penstock.spark.records.extra_columns import EXTRA_COLUMNS, STATE_COLUMNS
from penstock.spark.runtime.connections import LOGIN, Address, address_of
from penstock.spark.runtime.option_names import own_names, unknown_option
from penstock.spark.source.regions import EVERYWHERE, Region, decode
from penstock.types import check_name, duration_ms, instant_ms
from penstock.wire.records import OFFSET_MAX

# Of offsets: by topic ("": the only one) and partition.
Place = Literal["earliest", "latest"] | dict[str, dict[int, int]]
# In ms: by topic ("": any other) and partition (-1: any other).
Times = dict[str, dict[int, int]]
ENDS: Final[dict[int, Literal["earliest", "latest"]]] = {-2: "earliest", -1: "latest"}  # Instead of offsets.
ANY_PARTITION: Final = -1  # In times.

TRIGGER_DELAY: Final = "15m"  # As in Spark's Kafka connector.
PARTITION_RECORDS: Final = 1_000_000  # About a second of work: worth a task, and quickly redone.
REGISTRY: Final = "registry"
VALUE_FORMATS: Final = ("raw", "text", "json", "avro", REGISTRY)
NAMES: Final = (
    "servers", *LOGIN, "topic", "topic_pattern", "starting", "ending", "from_time", "to_time",
    "partition_records", "max_records_per_trigger", "max_bytes_per_trigger", "min_records_per_trigger",
    "max_trigger_delay", "group", "value_format", "value_schema", "columns", "lake", "on_gap", "in_step",
)  # fmt: skip
WITHIN: Final = "within"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of one reader."""

    address: Address
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    starting: Place | None = None  # None: not said, which for a table is earliest and for a stream latest.
    ending: Place = "latest"
    from_times: Times | None = None
    to_times: Times | None = None
    partition_records: int = PARTITION_RECORDS
    max_records: int | None = None
    max_bytes: int | None = None
    min_records: int | None = None
    trigger_delay_ms: int = 0
    group: str | None = None
    value_format: str = "raw"
    value_schema: str | None = None
    columns: tuple[str, ...] = ()
    lake: str | None = None
    on_gap: str = "error"
    in_step: str | None = None
    within: Region = EVERYWHERE

    def from_ms(self, topic: str, partition: int) -> int | None:
        """The first time to read of a partition; None: all."""
        return _time_of(self.from_times, topic, partition)

    def to_ms(self, topic: str, partition: int) -> int | None:
        """The first time that is not read any more."""
        return _time_of(self.to_times, topic, partition)


def every_partition(time_ms: int | None) -> Times | None:
    """One time for all partitions."""
    return None if time_ms is None else {"": {ANY_PARTITION: time_ms}}


def _time_of(times: Times | None, topic: str, partition: int) -> int | None:
    if times is None:
        return None
    of_topic = times.get(topic, times.get("", {}))
    return of_topic.get(partition, of_topic.get(ANY_PARTITION))


def source_options(given: Mapping[str, str]) -> SourceOptions:
    """The options as a program wrote them, checked."""
    texts = own_names(given)
    for name in texts:
        if name not in NAMES and name != WITHIN:
            raise unknown_option(name, NAMES)
    options = SourceOptions(
        address=address_of(texts),
        topics=_topics(texts),
        pattern=_pattern(texts),
        starting=_place("starting", texts["starting"]) if "starting" in texts else None,
        ending=_place("ending", texts["ending"]) if "ending" in texts else "latest",
        from_times=_times("from_time", texts),
        to_times=_times("to_time", texts),
        partition_records=_number("partition_records", texts) or PARTITION_RECORDS,
        max_records=_number("max_records_per_trigger", texts),
        max_bytes=_number("max_bytes_per_trigger", texts),
        min_records=_number("min_records_per_trigger", texts),
        trigger_delay_ms=duration_ms("max_trigger_delay", texts.get("max_trigger_delay", TRIGGER_DELAY)),
        group=check_name("group", texts["group"]) if "group" in texts else None,
        value_format=_choice("value_format", texts, VALUE_FORMATS),
        value_schema=texts.get("value_schema"),
        columns=_columns(texts),
        lake=texts.get("lake"),
        on_gap=_choice("on_gap", texts, ("error", "skip")),
        in_step=texts.get("in_step"),
        within=decode(texts[WITHIN]) if WITHIN in texts else EVERYWHERE,
    )
    _check_together(options, texts)
    return options


def _check_together(options: SourceOptions, texts: Mapping[str, str]) -> None:
    if bool(options.topics) == (options.pattern is not None):
        raise InvalidValue(name="topic", value=texts.get("topic"), why="set either topic or topic_pattern")
    for time, place in (("from_time", "starting"), ("to_time", "ending")):
        if time in texts and place in texts:
            raise InvalidValue(name=time, value=texts[time], why=f"set either {time} or {place}, not both")
    _check_times(options, texts)
    if options.min_records is not None and options.min_records > (options.max_records or options.min_records):
        why = "it must not be above max_records_per_trigger"
        raise InvalidValue(name="min_records_per_trigger", value=options.min_records, why=why)
    if options.group is None and any(name in STATE_COLUMNS for name in options.columns):
        raise InvalidValue(name="columns", value=texts["columns"], why="it requires the option group")
    if options.value_schema is None and options.value_format == "avro":
        raise InvalidValue(
            name="value_schema",
            value=None,
            why="value_format=avro needs the schema that the values were written with",
        )
    several = options.pattern is not None or len(options.topics) > 1
    if several and options.value_format == REGISTRY:
        raise InvalidValue(
            name="value_format", value=REGISTRY, why="it is for one topic; read each by itself"
        )
    for name, offsets in (("starting", options.starting), ("ending", options.ending)):
        if several and isinstance(offsets, dict) and "" in offsets:
            why = 'with several topics, write it as {"topic": {"partition": offset}}'
            raise InvalidValue(name=name, value=texts[name], why=why)


def _check_times(options: SourceOptions, texts: Mapping[str, str]) -> None:
    for topic, begins in (options.from_times or {}).items():
        for partition, begin_ms in begins.items():
            end_ms = options.to_ms(topic, partition)
            if end_ms is not None and begin_ms > end_ms:
                raise InvalidValue(name="to_time", value=texts["to_time"], why="it is before from_time")


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
        if not isinstance(offset, int) or isinstance(offset, bool) or not min(ENDS) <= offset <= OFFSET_MAX:
            raise ValueError(offset)
    return offsets


def _times(name: str, texts: Mapping[str, str]) -> Times | None:
    """The times of an option: one, or one for each topic or partition."""
    if name not in texts:
        return None
    text = texts[name].strip()
    if not text.startswith("{"):
        return every_partition(_time_ms(name, text))
    try:
        topics = json.loads(text).items()
    except ValueError:
        why = 'it must be a time, {"topic": TIME} or {"topic": {"partition": TIME}}'
        raise InvalidValue(name=name, value=text, why=why) from None
    return {topic: _partition_times(name, each) for topic, each in topics}


def _partition_times(name: str, given: Any) -> dict[int, int]:
    if not isinstance(given, dict):
        return {ANY_PARTITION: _time_ms(name, given)}
    for partition in given:
        if not partition.isascii() or not partition.isdigit():
            raise InvalidValue(name=name, value=partition, why="a partition must be a number")
    return {int(partition): _time_ms(name, each) for partition, each in given.items()}


def _time_ms(name: str, given: Any) -> int:
    """A time, as text or in milliseconds since 1970."""
    text = str(given)
    return int(text) if text.isascii() and text.isdigit() else instant_ms(name, text)


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
