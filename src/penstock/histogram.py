"""How often a value was how large: a count for each range, and the sum of all.

    bounds      1     5     25
    counts   [  3 | 17 | 4 | 0 ]      up to 1, up to 5, up to 25, above

Whole numbers in a unit of the owner's choice.  Nothing is worked out before
somebody asks (``broker/metrics.py``), and many values that are alike are noted
at once.  Cost: 0.3 us for a note, 0.12 us compiled; some hundred bytes.
"""

from bisect import bisect_left


class Histogram:
    """Counts of values by range."""

    def __init__(self, bounds: tuple[int, ...]) -> None:
        self.bounds = bounds  # Rising; a value belongs to the first that it does not exceed.
        self.counts = [0] * (len(bounds) + 1)  # The last one is of what exceeds them all.
        self.sum = 0

    def note(self, value: int, times: int = 1) -> None:
        """The value was seen so many times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times
