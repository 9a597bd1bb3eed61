"""The delivery time of a message that has a delay or a point in time."""

import math

from penstock.broker.state import Topic
from penstock.errors import DelayOutOfRange, InvalidValue
from penstock.types import DURATION_MS_MAX, Duration, Instant, instant_ms, signed_duration_ms


def due_ms(topic: Topic, delay: Duration | None, deliver_at: Instant | None, now_ms: int) -> int:
    """When a message is due; both ways of saying it at once is an error."""
    if delay is not None and deliver_at is not None:
        raise InvalidValue(name="deliver_at", value=deliver_at, why="give delay or deliver_at, not both")
    limit_ms = topic.settings.delay_max_ms
    if deliver_at is not None:
        due = instant_ms("deliver_at", deliver_at)
        if due - now_ms > limit_ms:
            raise DelayOutOfRange(delay_ms=due - now_ms, limit_ms=limit_ms)
        return max(due, now_ms)  # A time that has passed is due now.
    if delay is None:
        raise InvalidValue(name="delay", value=delay, why="give delay or deliver_at")
    wanted_ms = signed_duration_ms("delay", delay)
    if not 0 <= wanted_ms <= limit_ms:
        bounded = max(min(wanted_ms, DURATION_MS_MAX), -DURATION_MS_MAX)
        raise DelayOutOfRange(delay_ms=math.floor(bounded), limit_ms=limit_ms)
    return now_ms + round(wanted_ms)
