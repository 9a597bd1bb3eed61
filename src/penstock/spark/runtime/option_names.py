"""Option names of Spark's Kafka connector, for programs that come from it.

    subscribe, subscribePattern                topic, topic_pattern
    startingOffsets, endingOffsets             starting, ending
    startingTimestamp, endingTimestamp         from_time, to_time; in milliseconds since 1970
    startingOffsetsByTimestamp, ending...      from_time, to_time; by topic and partition
    failOnDataLoss                             on_gap: true is error, false is skip
    maxOffsetsPerTrigger, minOffsetsPerTrigger max_records_per_trigger, min_records_per_trigger
    maxTriggerDelay                            max_trigger_delay
    kafka.group.id                             group

The defaults are this format's, not Kafka's.  Setting an option under both names is an
error.  ``kafka.bootstrap.servers`` is refused, because this format needs the native port.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from penstock.errors import InvalidValue

ALIASES: Final = {
    "subscribe": "topic",
    "subscribepattern": "topic_pattern",
    "startingoffsets": "starting",
    "endingoffsets": "ending",
    "startingtimestamp": "from_time",
    "endingtimestamp": "to_time",
    "startingoffsetsbytimestamp": "from_time",
    "endingoffsetsbytimestamp": "to_time",
    "failondataloss": "on_gap",
    "maxoffsetspertrigger": "max_records_per_trigger",
    "minoffsetspertrigger": "min_records_per_trigger",
    "maxtriggerdelay": "max_trigger_delay",
    "kafka.group.id": "group",
}
BOOTSTRAP: Final = "kafka.bootstrap.servers"


def own_names(given: Mapping[str, str]) -> dict[str, str]:
    """Options under the names of this format, in lower case."""
    found: dict[str, str] = {}
    for name, value in given.items():
        own = ALIASES.get(name.lower(), name.lower())
        if own in found:
            raise InvalidValue(name="option", value=name, why=f"it is the same as {own}; set one of them")
        found[own] = _on_gap(value) if name.lower() == "failondataloss" else value
    return found


def _on_gap(value: str) -> str:
    try:
        return {"true": "error", "false": "skip"}[value.lower()]
    except KeyError:
        raise InvalidValue(name="failOnDataLoss", value=value, why="it must be true or false") from None


def unknown_option(name: str, known: Iterable[str]) -> InvalidValue:
    """The error for an option that does not exist."""
    if name == BOOTSTRAP:
        why = "set servers to the native address of the broker, such as 127.0.0.1:7070"
        return InvalidValue(name="option", value=name, why=why)
    names = list(known)
    near = get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    return InvalidValue(name="option", value=name, why=f"{hint}the options are {', '.join(names)}")
