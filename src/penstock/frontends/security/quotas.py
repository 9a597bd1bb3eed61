"""Quotas as token buckets: a rate per second, with one second's worth as burst.

    full ──── take ────> emptier ──── time ────> full
                            └── below nothing: refused, until time has made up for it

One request may take more than there is, once: so a batch that is larger than a
second's worth goes through, and its sender waits for as long as it was too
large.  Over any time the rate is kept.
"""

from penstock.clock import Clock
from penstock.errors import QuotaExceeded
from penstock.model.access import Quota


class TokenBucket:
    def __init__(self, limit: int, now_ms: int) -> None:
        self.limit = limit  # A second; also what is there at most.
        self._level = float(limit)
        self._at_ms = now_ms

    def short_ms(self, now_ms: int) -> int:
        """The wait until tokens are available; 0 if there are some."""
        self._level = min(self._level + self.limit * (now_ms - self._at_ms) / 1000, self.limit)
        self._at_ms = now_ms
        return 0 if self._level > 0 else round(-self._level / self.limit * 1000) + 1

    def take(self, amount: int) -> None:
        """Take tokens, even more than there are."""
        self._level -= amount


class Spending:
    """What one identity publishes, over all its connections."""

    def __init__(self, who: str, quota: Quota, clock: Clock) -> None:
        self._who = who
        self._clock = clock
        now_ms = clock.steady_ms()
        messages, size = quota.messages_per_second, quota.bytes_per_second
        self._messages = None if messages is None else TokenBucket(messages, now_ms)
        self._bytes = None if size is None else TokenBucket(size, now_ms)
        self.limited = self._messages is not None or self._bytes is not None

    def spend(self, messages: int, size: int) -> None:
        """Take messages and bytes, or refuse and take neither."""
        now_ms = self._clock.steady_ms()
        wanted = (self._messages, messages, "messages a second"), (self._bytes, size, "bytes a second")
        for bucket, _, what in wanted:
            short_ms = 0 if bucket is None else bucket.short_ms(now_ms)
            if bucket is not None and short_ms:
                raise QuotaExceeded(
                    who=self._who, what=what, limit=bucket.limit, retry_after=-(-short_ms // 1000)
                )
        for bucket, amount, _ in wanted:
            if bucket is not None:
                bucket.take(amount)
