"""Serialises changes of a topic that take many steps.

New partitions, a new group and new settings of a group are written to one partition after the other, and
other operations run in between.  Two such changes at once would write the same files, or leave half of the
partitions with one change and half with the other.  So each waits for its turn:

    yield from begin_change(state, topic)
    try:
        ...
    finally:
        end_change(topic)

Deleting a topic does not wait.  A change notices it with ``check_alive`` after each step.
"""

from typing import Final

from penstock.broker.state import State, Topic
from penstock.broker.steps import Arrival, Steps

LOOK_MS: Final = 60_000  # Whoever waits for its turn looks again after this, though nobody has woken it.


def begin_change(state: State, topic: Topic) -> Steps[None]:
    """Wait until nobody changes the topic; then it is the caller's turn until ``end_change``."""
    while topic.changing:
        yield Arrival(topic, state.clock.steady_ms() + LOOK_MS)
        state.check_alive(topic)
    topic.changing = True


def end_change(topic: Topic) -> None:
    """Let the next one have its turn."""
    topic.changing = False
    topic.wake()
