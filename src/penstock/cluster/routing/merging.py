"""Merges the results of several nodes into one.  Pure functions: nothing is requested here.

A node counts and lists only partitions that it owns, so most numbers add up.  These do not:

    ages and times        the largest
    groups, consumers     the largest: a group, and a consumer of it, is on every owner of its topic
    a topic's depth       the sum of what waits for the slowest group of each owner, so it may be too high
    a group's verdict     the worst one of its owners (``WORST``), with the numbers of that owner;
                          without consumers, with the lag of all owners
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import add
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from penstock.broker.health.verdict import alone
from penstock.broker.observability.measuring import Distribution, Family
from penstock.groups.commits import Commit
from penstock.groups.rebalance import KafkaGroupState
from penstock.model.info import (
    BrokerInfo,
    DeadLetter,
    DeadLetterErrors,
    GroupInfo,
    GroupRates,
    GroupState,
    Overview,
    ScheduledMessage,
    TopicInfo,
    TopicState,
    Verdict,
    VerdictWord,
)
from penstock.model.message import StoredMessage
from penstock.model.placing import stored_bytes

WORST: Final[tuple[VerdictWord, ...]] = (
    "blocked", "stalled", "failing", "falling behind", "no consumers", "working", "draining", "keeping up",
    "idle",
)  # fmt: skip
LARGEST: Final = (
    "_seconds",
    "_consumers",
    "_verdict",
)  # Gauges that do not add up, by the end of their names.

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")
Samples = tuple[str, tuple[str, ...], list[tuple[tuple[str, ...], float | Distribution]]]


class Merging(NamedTuple):
    """Context for the functions below, besides the results by node."""

    owner: Callable[[str, int], int]
    arguments: Sequence[Any]  # Of the operation.
    bytes_max: int = 1 << 62  # A node that returned this many bytes may have more messages.


def nothing(_: dict[int, None], __: Merging) -> None:
    """For operations without a result."""


def total(found: dict[int, int], _: Merging) -> int:
    return sum(found.values())


def _sums(of: Sequence[S], *names: str) -> dict[str, Any]:
    return {name: sum(getattr(each, name) for each in of) for name in names}


def _largest(of: Sequence[S], *names: str) -> dict[str, Any]:
    return {name: max(getattr(each, name) for each in of) for name in names}


def _owned(found: dict[int, S], merging: Merging) -> list[Any]:
    """The partitions in these results, each in the description by its owner."""
    topic: str = merging.arguments[0]
    partitions = [
        each
        for node, info in found.items()
        for each in getattr(info, "partitions")  # noqa: B009 - of two kinds of info.
        if merging.owner(topic, each.partition) == node
    ]
    return sorted(partitions, key=lambda each: each.partition)


def topic_info(found: dict[int, TopicInfo], merging: Merging) -> TopicInfo:
    infos = list(found.values())
    counts = _sums(infos, "messages", "bytes", "depth", "scheduled", "published", "duplicates")
    groups = sorted({group for info in infos for group in info.groups})
    return msgspec.structs.replace(infos[0], groups=groups, partitions=_owned(found, merging), **counts)


def _rates(of: Iterable[GroupRates]) -> GroupRates:
    rates = list(of)
    return GroupRates(**_sums(rates, *GroupRates.__struct_fields__))


def _verdict(of: Sequence[GroupInfo] | Sequence[GroupState]) -> Verdict:
    worst = min((each.verdict for each in of), key=lambda verdict: WORST.index(verdict.word))
    return alone(sum(each.lag for each in of)) if worst.word == "no consumers" else worst


def _drain_seconds(of: Iterable[float | None]) -> float | None:
    """The time until the slowest is drained; None if one never is."""
    found = list(of)
    return None if None in found else max(each for each in found if each is not None)


def group_info(found: dict[int, GroupInfo], merging: Merging) -> GroupInfo:
    infos = list(found.values())
    unacked = [info.oldest_unacked for info in infos if info.oldest_unacked is not None]
    return msgspec.structs.replace(
        infos[0],
        verdict=_verdict(infos),
        drain_seconds=_drain_seconds(info.drain_seconds for info in infos),
        oldest_unacked=max(unacked, key=lambda each: each.age_seconds, default=None),
        rates=_rates(info.rates for info in infos),
        consumers=sorted({name for info in infos for name in info.consumers}),
        partitions=_owned(found, merging),
        **_largest(infos, "lag_seconds"),
        **_sums(
            infos, "lag", "in_flight", "waiting_retry", "lost", "delivered", "acked", "nacked", "timed_out",
            "dead_lettered", "expired",
        ),
    )  # fmt: skip


def by_partition(found: dict[int, dict[int, T]], merging: Merging) -> dict[int, T]:
    topic: str = merging.arguments[0]
    return {
        number: each
        for node, mine in found.items()
        for number, each in mine.items()
        if merging.owner(topic, number) == node
    }


def commits(found: dict[int, dict[int, Commit]], _: Merging) -> dict[int, Commit]:
    return {number: commit for mine in found.values() for number, commit in mine.items()}


def names(found: dict[int, list[str]], _: Merging) -> list[str]:
    return sorted({name for mine in found.values() for name in mine})


def member_group(found: dict[int, KafkaGroupState | None], _: Merging) -> KafkaGroupState | None:
    return max((state for state in found.values() if state is not None), key=_known, default=None)


def member_groups(found: dict[int, list[KafkaGroupState]], _: Merging) -> list[KafkaGroupState]:
    """Each group once, in the most complete description: the coordinator knows the members."""
    by_name: dict[str, list[KafkaGroupState]] = defaultdict(list)
    for states in found.values():
        for state in states:
            by_name[state.group].append(state)
    return [max(by_name[name], key=_known) for name in sorted(by_name)]


def _known(state: KafkaGroupState) -> tuple[bool, bool, bool]:
    return state.kind != "share", state.state != "Empty", bool(state.protocol_type)


def waiting(found: dict[int, dict[tuple[str, int], int]], merging: Merging) -> dict[tuple[str, int], int]:
    return {
        place: count
        for node, mine in found.items()
        for place, count in mine.items()
        if merging.owner(*place) == node
    }


def lanes(found: dict[int, dict[str, int]], _: Merging) -> dict[str, int]:
    names = dict.fromkeys(name for mine in found.values() for name in mine)
    return {name: sum(mine.get(name, 0) for mine in found.values()) for name in names}


# Messages.


def _by_time(message: StoredMessage) -> tuple[int, int, int]:
    return message.timestamp, message.partition, message.offset


def read(found: dict[int, list[StoredMessage]], merging: Merging) -> list[StoredMessage]:
    """Messages in order of time, complete up to the last one."""
    cuts = [mine[-1].timestamp for mine in found.values() if mine and _bytes(mine) >= merging.bytes_max]
    messages = [each for mine in found.values() for each in mine if not cuts or each.timestamp <= min(cuts)]
    limit: int = merging.arguments[-1]
    return sorted(messages, key=_by_time)[:limit]


def _bytes(messages: list[StoredMessage]) -> int:
    return sum(stored_bytes(each.key, each.value, each.raw_headers) for each in messages)


def peek(found: dict[int, list[StoredMessage]], merging: Merging) -> list[StoredMessage]:
    count: int = merging.arguments[1]
    return sorted((each for mine in found.values() for each in mine), key=_by_time)[-count:]


def scheduled(found: dict[int, list[ScheduledMessage]], merging: Merging) -> list[ScheduledMessage]:
    limit: int = merging.arguments[1]
    return sorted((each for mine in found.values() for each in mine), key=lambda each: each.partition)[:limit]


def dead_letters(found: dict[int, list[DeadLetter]], merging: Merging) -> list[DeadLetter]:
    limit: int = merging.arguments[1]
    letters = [each for mine in found.values() for each in mine]
    return sorted(letters, key=lambda letter: _by_time(letter.message))[:limit]


def dead_letter_errors(found: dict[int, list[DeadLetterErrors]], _: Merging) -> list[DeadLetterErrors]:
    errors: dict[tuple[str, str], DeadLetterErrors] = {}
    for each in (each for mine in found.values() for each in mine):
        known = errors.get((each.topic, each.fingerprint))
        errors[each.topic, each.fingerprint] = each if known is None else _both(known, each)
    return sorted(errors.values(), key=lambda each: -each.count)


def _both(one: DeadLetterErrors, other: DeadLetterErrors) -> DeadLetterErrors:
    return msgspec.structs.replace(
        max(one, other, key=lambda each: each.last_seen_ms),
        groups=sorted({*one.groups, *other.groups}),
        count=one.count + other.count,
        first_seen_ms=min(one.first_seen_ms, other.first_seen_ms),
    )


# The whole cluster.


def stats(found: dict[int, BrokerInfo], _: Merging) -> BrokerInfo:
    infos = list(found.values())
    return msgspec.structs.replace(
        infos[0],
        problems=[problem for info in infos for problem in info.problems],
        **_largest(infos, "topics", "groups", "consumers"),
        **_sums(
            infos, "partitions", "connections", "messages", "scheduled", "bytes", "published", "delivered",
            "acked", "memory_bytes_peak",
        ),
    )  # fmt: skip


def overview(found: dict[int, Overview], _: Merging) -> Overview:
    overviews = list(found.values())
    topics = _joined((line for each in overviews for line in each.topics), lambda line: line.topic, _topic)
    groups = _joined(
        (line for each in overviews for line in each.groups), lambda line: (line.topic, line.group), _group
    )
    return Overview(
        topics=topics,
        groups=groups,
        waited=_added(each.waited for each in overviews),
        waited_sums=_added(each.waited_sums for each in overviews),
        waited_ms=overviews[0].waited_ms,
        cost_ms=sum(each.cost_ms for each in overviews),
    )


def _joined(lines: Iterable[S], name: Callable[[S], Any], join: Callable[[Sequence[S]], S]) -> list[S]:
    """One line for each name, in order."""
    found: dict[Any, list[S]] = {}
    for line in lines:
        found.setdefault(name(line), []).append(line)
    return [join(found[each]) for each in sorted(found)]


def _added(rows: Iterable[list[int]]) -> list[int]:
    return list(reduce(lambda one, other: list(map(add, one, other)), rows))


def _topic(lines: Sequence[TopicState]) -> TopicState:
    names = ("partitions", "messages", "bytes", "depth", "scheduled", "dead_letters", "published", "rate")
    return msgspec.structs.replace(lines[0], **_largest(lines, "groups"), **_sums(lines, *names))


def _group(lines: Sequence[GroupState]) -> GroupState:
    return msgspec.structs.replace(
        lines[0],
        verdict=_verdict(lines),
        drain_seconds=_drain_seconds(line.drain_seconds for line in lines),
        rates=_rates(line.rates for line in lines),
        waited=_added(line.waited for line in lines),
        waited_sums=_added(line.waited_sums for line in lines),
        **_largest(lines, "lag_seconds", "consumers"),
        **_sums(lines, "lag", "in_flight", "waiting_retry", "delivered", "acked", "failed", "dead_lettered"),
    )


def metrics(families: list[Family], samples: list[Samples]) -> list[Family]:
    """Add the samples of another node; metrics of the broker itself stay those of this node."""
    others = {name: values for name, labels, values in samples if "topic" in labels}
    return [
        _family(family, others[family.metric.name]) if family.metric.name in others else family
        for family in families
    ]


def _family(family: Family, values: list[tuple[tuple[str, ...], float | Distribution]]) -> Family:
    largest = family.metric.kind == "gauge" and family.metric.name.endswith(LARGEST)
    known = dict(family.samples)
    for labels, value in values:
        known[labels] = _value(known[labels], value, largest) if labels in known else value
    return family._replace(samples=list(known.items()))


def _value(one: Any, other: Any, largest: bool) -> Any:
    if isinstance(one, Distribution):
        counts = [
            (bound, mine + theirs)
            for (bound, mine), (_, theirs) in zip(one.buckets, other.buckets, strict=True)
        ]
        return Distribution(counts, one.sum + other.sum)
    return max(one, other) if largest else one + other
