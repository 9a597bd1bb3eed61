"""Regular expressions that clients send, and the names that they match.

Kafka's brokers match with RE2/J.  Penstock uses RE2 itself, through the google-re2 wheel: the syntax and the
meaning are the same, and the time is linear in the length of the name, whatever the pattern.  Python's ``re``
backtracks: ``(a|aa)*b`` would take years for a name of 200 characters.

    compiled("orders-.*")("orders-eu")        True: the whole name must match
    try_all({pattern: names}, is_over)        what matches; releases the GIL, so run it in a thread

Linear is not free: the factor is the size of the compiled program, which ``MEMORY_MAX`` limits.  The worst
patterns take 3 ms for a name of 200 characters, ordinary ones a few microseconds.  A caller with many names
therefore matches them away from the event loop (``broker/kafka/matching.py``) and passes the result along.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

LENGTH_MAX: Final = 4096  # Characters of a pattern.  librdkafka joins all patterns of a subscription.
MEMORY_MAX: Final = 256 * 1024  # Bytes for the compiled pattern and its cache: some 5,000 instructions.
COMPILED_MAX: Final = 256  # Patterns that are kept compiled.

Matcher = Callable[[str], bool]


class PatternError(ValueError):
    """Why a pattern is refused."""


@lru_cache(maxsize=COMPILED_MAX)
def compiled(pattern: str) -> Matcher:
    """A function that matches whole names; raises ``PatternError`` for an invalid pattern."""
    if len(pattern) > LENGTH_MAX:
        raise PatternError(f"the pattern has {len(pattern)} characters, and at most {LENGTH_MAX} are allowed")
    import re2  # Only when a client subscribes by a pattern: it takes 2.4 MB.

    options = re2.Options()
    options.max_mem = MEMORY_MAX
    options.never_capture = True
    options.log_errors = False
    try:
        fullmatch = re2.compile(pattern, options).fullmatch
    except re2.error as error:
        why = error.args[0].decode() if isinstance(error.args[0], bytes) else error.args[0]
        raise PatternError(f"the pattern is not a valid RE2 expression: {why}") from None
    return lambda name: fullmatch(name) is not None


def problem_of(pattern: str) -> str:
    """Why a pattern is invalid; empty if it is valid."""
    try:
        compiled(pattern)
    except PatternError as problem:
        return str(problem)
    return ""


class Tried:
    """Cached matches, so that names are not matched again on the event loop."""

    def __init__(self) -> None:
        self._results: dict[str, dict[str, bool]] = {}  # By pattern, by name.

    def note(self, pattern: str, name: str, matches: bool) -> None:
        self._results.setdefault(pattern, {})[name] = matches

    def matches(self, pattern: str, name: str) -> bool:
        """Whether the name matches; cached if it was matched before."""
        known = self._results.get(pattern, {}).get(name)
        return compiled(pattern)(name) if known is None else known


NOTHING_TRIED: Final = Tried()


def try_all(work: Mapping[str, Iterable[str]], is_over: Callable[[], bool]) -> Tried | None:
    """Match the names of each pattern; None if it is over before all are tried."""
    tried = Tried()
    for pattern, names in work.items():
        matches = compiled(pattern)
        for name in names:
            if is_over():
                return None
            tried.note(pattern, name, matches(name))
    return tried
