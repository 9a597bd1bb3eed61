"""Regular expressions that come from strangers: only those that cannot keep the broker busy.

Kafka's brokers match with RE2, which takes linear time for whatever it accepts.  Python's
``re`` tries again and again where repetitions overlap.  So a repetition within a repetition
is refused, and more than a few of them; a name is at most 200 characters long, and what is left
takes microseconds for it.  What RE2 does not know (references, looking around) is refused, too.
"""

import re
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

LENGTH_MAX: Final = 1000
REPEATS_MAX: Final = 3

_REPEATS: Final = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})
_PLAIN: Final = frozenset({
    "LITERAL", "NOT_LITERAL", "ANY", "IN", "RANGE", "NEGATE", "CATEGORY", "AT", "BRANCH", "SUBPATTERN",
})  # fmt: skip


def is_safe(pattern: str) -> bool:
    """Whether names may be matched against it."""
    if len(pattern) > LENGTH_MAX:
        return False
    try:
        re.compile(pattern)
        return _repeats(_parser.parse(pattern)) <= REPEATS_MAX
    except (re.error, OverflowError, RecursionError, ValueError):
        return False


def _repeats(items: Any) -> int:
    """How many repetitions there are; ``ValueError`` if one is within another, or something is unknown."""
    return sum(_repeats_in(str(name), arguments) for name, arguments in items)


def _repeats_in(name: str, arguments: Any) -> int:
    if name in _REPEATS:
        low, high, inner = arguments
        if _repeats(inner) and high > 1:
            raise ValueError("a repetition within a repetition")
        return 1 if high > 1 or low != high else 0
    if name not in _PLAIN:
        raise ValueError(name)
    if name == "BRANCH":
        return sum(map(_repeats, arguments[1]))
    return _repeats(arguments[-1]) if name == "SUBPATTERN" else 0
