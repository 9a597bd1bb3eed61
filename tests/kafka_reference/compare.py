"""What two servers answered differently, and which of that is expected.

``expected.toml`` has groups of expected differences, each with its reason.  A line of a group is a pattern
(``*`` for anything) of a difference as it is printed:

    Fetch at the end: responses.orders.partitions.0.high_watermark: Kafka 3, Penstock 4

A difference in no group fails the command, and so does a pattern that matches nothing any more; those of
``sometimes`` depend on time, and may match nothing.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from tests.kafka_reference.talk import Step

EXPECTED: Final = Path(__file__).with_name("expected.toml")
ABSENT: Final = "(absent)"


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of one answer."""

    where: str
    path: str
    kafka: str
    penstock: str

    def __str__(self) -> str:
        place = f"{self.where}: {self.path}" if self.path else self.where
        return f"{place}: Kafka {self.kafka}, Penstock {self.penstock}"


@dataclass(slots=True)
class Group:
    """Differences with one reason."""

    title: str
    reason: str
    patterns: list[str]
    sometimes: list[str]
    used: set[str] = field(default_factory=set)
    found: list[tuple[Difference, str]] = field(default_factory=list)

    def takes(self, difference: Difference) -> bool:
        patterns = self.patterns + self.sometimes
        matching = [each for each in patterns if fnmatchcase(str(difference), each.replace("[", "[[]"))]
        self.used.update(matching)
        return bool(matching)


def groups() -> list[Group]:
    """Of the checked-in list."""
    read = tomllib.loads(EXPECTED.read_text())
    return [
        Group(each["title"], " ".join(each["reason"].split()), each["differences"], each.get("sometimes", []))
        for each in read["group"]
    ]


def differences(kafka: Sequence[Step], penstock: Sequence[Step]) -> dict[Difference, list[int]]:
    """Each difference, and the versions of the API that show it."""
    found: dict[Difference, list[int]] = {}
    for first, second in zip(kafka, penstock, strict=False):
        if (first.api, first.what, first.version) != (second.api, second.what, second.version):
            break
        for path, left, right in _compared(first.answer, second.answer):
            made = Difference(f"{first.api} {first.what}", path, left, right)
            found.setdefault(made, []).append(first.version)
    if len(kafka) != len(penstock):
        last = kafka[-1] if kafka else Step("nothing", "at all", 0, None)
        made = Difference(f"{last.api} {last.what}", "steps", str(len(kafka)), str(len(penstock)))
        found.setdefault(made, []).append(last.version)
    return found


def _compared(first: Any, second: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        if first.get("error_code") != second.get("error_code"):  # The rest follows from that.
            first, second = ({"error_code": each.get("error_code", ABSENT)} for each in (first, second))
        for name in dict.fromkeys([*first, *second]):
            inner = f"{path}.{name}" if path else str(name)
            if name not in first or name not in second:
                yield inner, _shown(first.get(name, ABSENT)), _shown(second.get(name, ABSENT))
            else:
                yield from _compared(first[name], second[name], inner)
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for number, (left, right) in enumerate(zip(first, second, strict=True)):
            yield from _compared(left, right, f"{path}.{number}")
    elif first != second:
        yield path, _shown(first), _shown(second)


def _shown(value: Any) -> str:
    if value == ABSENT:
        return ABSENT
    return "there" if isinstance(value, Mapping) and value else repr(value)


def ranges(numbers: Sequence[int]) -> str:
    """3-5, 7"""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{first}-{last}" if first != last else str(first) for first, last in found)
