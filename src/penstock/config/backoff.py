"""Retry delays of messages.

A backoff is either a delay that grows by a factor up to a cap, or a fixed list whose
last entry repeats.  With the defaults, after attempts 1, 2, 3, ...:

      1 s   2 s   4 s   8 s   16 s   32 s   60 s   60 s   ...

and each is shortened by a random part of up to 20 % (``jitter``), so that
messages that failed together are not retried together.  Jitter only
shortens: a delay is never longer than configured, and delays at the cap still differ.

Pure: the random number, in [0, 1), is an argument.  The number of attempts is limited elsewhere
(``attempts_max`` of the engine).
"""

from collections.abc import Sequence
from typing import Final

from penstock.errors import InvalidValue

BASE_MS: Final = 1_000  # Long enough for a dropped connection to come back.
FACTOR: Final = 2.0
CAP_MS: Final = 60_000  # A dependency that is down for an hour is asked once a minute.
JITTER: Final = 0.2  # Spreads a batch that failed as one over a fifth of the delay.
DELAY_MS_MAX: Final = 366 * 24 * 3600 * 1000  # A year: beyond it, a mistake.

DEFAULTS: Final = [str(BASE_MS), str(FACTOR), str(CAP_MS), str(JITTER)]

EXPONENTIAL: Final = "exponential"
FIXED: Final = "fixed"


class Backoff:
    """Retry delays.  Make one with ``exponential`` or ``fixed``; it never changes."""

    __slots__ = ("_base_ms", "_cap_ms", "_delays_ms", "_factor", "_jitter", "_steps_max")

    def __init__(self, base_ms: int, factor: float, cap_ms: int, delays_ms: list[int], jitter: float) -> None:
        self._base_ms = base_ms
        self._factor = factor
        self._cap_ms = cap_ms
        self._delays_ms = delays_ms  # Empty: exponential.
        self._jitter = jitter
        self._steps_max = 0 if delays_ms else _steps_to_cap(base_ms, factor, cap_ms)

    @staticmethod
    def exponential(
        base_ms: int = BASE_MS, factor: float = FACTOR, cap_ms: int = CAP_MS, jitter: float = JITTER
    ) -> "Backoff":
        """``base_ms``, then ``factor`` times longer after each attempt, up to ``cap_ms``."""
        _check_delay("base_ms", base_ms)
        _check_delay("cap_ms", cap_ms)
        _check_jitter(jitter)
        if not 1.0 <= factor <= 100.0:
            raise InvalidValue(name="factor", value=factor, why="a factor is from 1 to 100")
        if cap_ms < base_ms:
            raise InvalidValue(name="cap_ms", value=cap_ms, why=f"it is below base_ms, {base_ms}")
        return Backoff(base_ms, factor, cap_ms, [], jitter)

    @staticmethod
    def fixed(delays_ms: Sequence[int], jitter: float = 0.0) -> "Backoff":
        """One delay for each attempt; the last one repeats."""
        if not delays_ms:
            raise InvalidValue(name="delays_ms", value=delays_ms, why="it is empty; one delay is enough")
        for delay_ms in delays_ms:
            _check_delay("delays_ms", delay_ms)
        _check_jitter(jitter)
        return Backoff(0, 1.0, 0, list(delays_ms), jitter)

    def delay_ms(self, attempt: int, random: float) -> int:
        """How long to wait after ``attempt`` (1 is the first) has failed; ``random`` is in [0, 1)."""
        assert attempt >= 1
        assert 0.0 <= random < 1.0
        delays_ms = self._delays_ms
        if delays_ms:
            delay = float(delays_ms[min(attempt, len(delays_ms)) - 1])
        else:
            steps = min(attempt - 1, self._steps_max)
            delay = min(self._base_ms * self._factor**steps, float(self._cap_ms))
        return round(delay * (1.0 - self._jitter * random))

    def encode(self) -> str:
        """As text for the settings; ``decode`` reads it."""
        if not self._delays_ms:
            numbers = [float(self._base_ms), self._factor, float(self._cap_ms), self._jitter]
            return ":".join([EXPONENTIAL, *[_text(number) for number in numbers]])
        text = f"{FIXED}:{','.join([str(delay_ms) for delay_ms in self._delays_ms])}"
        return f"{text}:{_text(self._jitter)}" if self._jitter else text

    @staticmethod
    def decode(text: str) -> "Backoff":
        """The backoff that a text describes; InvalidValue if it describes none.

        ``exponential:<base ms>:<factor>:<cap ms>:<jitter>``, each of them and
        the rest after it may be left out; or ``fixed:<ms>,<ms>,...``, which may
        be followed by ``:<jitter>``.
        """
        kind, *words = text.split(":")
        try:
            if kind == EXPONENTIAL and len(words) <= 4:
                values = [*words, *DEFAULTS[len(words) :]]
                return Backoff.exponential(
                    _whole(values[0]), float(values[1]), _whole(values[2]), float(values[3])
                )
            if kind == FIXED and 1 <= len(words) <= 2:
                delays_ms = [_whole(word) for word in words[0].split(",")]
                return Backoff.fixed(delays_ms, float(words[1]) if len(words) == 2 else 0.0)
        except ValueError:
            pass
        raise InvalidValue(
            name="backoff", value=text, why="write 'exponential:1000:2:60000:0.2' or 'fixed:1000,5000'"
        )


def _whole(word: str) -> int:
    if not word.isdecimal():
        raise ValueError(word)
    return int(word)


def _text(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)


def _steps_to_cap(base_ms: int, factor: float, cap_ms: int) -> int:
    """After how many steps the cap is reached: a power beyond it would only overflow."""
    if factor == 1.0 or not base_ms:
        return 0
    steps = 0
    delay = float(base_ms)
    while delay < cap_ms:
        delay *= factor
        steps += 1
    return steps


def _check_delay(name: str, delay_ms: int) -> None:
    if not 0 <= delay_ms <= DELAY_MS_MAX:
        raise InvalidValue(name=name, value=delay_ms, why="a delay is from 0 to a year of milliseconds")


def _check_jitter(jitter: float) -> None:
    if not 0.0 <= jitter <= 1.0:
        raise InvalidValue(name="jitter", value=jitter, why="it is a part of the delay, from 0 to 1")
