"""Rates of counters over the last ten seconds, at almost no cost on the hot path.

The counters are plain numbers.  Before code adds to them it makes sure that their
current values have been sampled, at most once a second:

    if now_ms >= group.sample_ms:          # One comparison is all that the hot path pays.
        group.sample_ms = meter.sample(now_ms, counts)

      count ^                    .----     o samples: the count just before it changes
            |            o-------'
            |   .--------'
            o---'
            '---^--------^-------> time
                 silence

Nothing is sampled while nothing happens, so no timer is needed.  Nothing is lost
either: what changed between two samples changed in the first second of that time,
otherwise there would be another sample.

Invariants:

    M1  the counts at a sample's time are the sample's
    M2  between a sample and the next they change only in its first ``SAMPLE_MS``
    M3  samples are at least that far apart, so ``SAMPLES_MAX`` of them reach back
        further than the window

Cost: taking or reading a sample is O(1), some microseconds; a meter takes 2 KB at
most.  Where the time comes from and what the counters mean is up to the caller.
"""

from collections import deque
from typing import Final

SAMPLE_MS: Final = 1000
WINDOW_MS: Final = 10_000  # Long enough to even out batches, short enough to see a change while one watches.
SAMPLES_MAX: Final = WINDOW_MS // SAMPLE_MS + 2

Counts = tuple[int, ...]


class Meter:
    """Remembers some counts as they were, for about as long as the window."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, Counts]] = deque(maxlen=SAMPLES_MAX)
        self._changed_ms: list[int] = []  # For each count, the latest time it can have changed; -1: never.

    def sample(self, now_ms: int, counts: Counts) -> int:
        """Remember the counts, which are about to change; returns the time of the next sample."""
        self._changed_ms = [self.changed_ms(now_ms, counts, index) for index in range(len(counts))]
        self._samples.append((now_ms, counts))
        return now_ms + SAMPLE_MS

    def per_second(self, now_ms: int, counts: Counts, since_ms: int) -> list[float]:
        """The growth per second of each count, over the window, or since ``since_ms`` if that is later."""
        from_ms, then = self._before(max(now_ms - WINDOW_MS, since_ms), counts)
        return _growth(then, counts, now_ms - from_ms)

    def average(self, now_ms: int, counts: Counts) -> list[float]:
        """The growth per second since the last sample, if samples were missed; M2 does not hold for it."""
        from_ms, then = self._samples[-1] if self._samples else (now_ms, counts)
        return _growth(then, counts, now_ms - from_ms)

    def changed_ms(self, now_ms: int, counts: Counts, index: int) -> int:
        """When one of the counts last changed, to a second and rather late than early; -1 if it never has."""
        if not self._samples:
            return -1
        sampled_ms, sampled = self._samples[-1]
        if counts[index] != sampled[index]:
            return min(sampled_ms + SAMPLE_MS, now_ms)
        return self._changed_ms[index]

    def _before(self, time_ms: int, counts: Counts) -> tuple[int, Counts]:
        """The counts at about ``time_ms``, and their exact time."""
        found = (time_ms, counts)  # Nothing has changed since.
        for sampled_ms, sampled in reversed(self._samples):
            if sampled_ms + SAMPLE_MS <= time_ms:  # Silence from then on (M2): the next sample's counts.
                break
            found = (min(time_ms, sampled_ms), sampled)
        return found


def _growth(then: Counts, now: Counts, elapsed_ms: int) -> list[float]:
    """The growth per second; the very first message counts as one per second, not as a thousand."""
    return [
        (count - before) * 1000 / max(elapsed_ms, SAMPLE_MS) for before, count in zip(then, now, strict=True)
    ]
