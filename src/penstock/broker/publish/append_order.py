"""Keeps appends to a partition in order while some of them have to wait.

A producer has several requests in flight, and numbers its batches.  If one of them waits (for the ledger of
transactions, or for a thread that validates a large batch) and the next does not, the next would be
written first: out of order, and refused where batches are numbered.  So an append that waits joins a queue
for each partition it writes to, and while a queue is not empty, later appends join it too.

A request joins all its queues at once, so two requests never wait for each other.
"""

from collections import deque
from collections.abc import Iterable

from penstock.broker.state import Topic
from penstock.broker.turns import Turn


def append_queues(topic: Topic, numbers: Iterable[int]) -> list[deque[Turn]]:
    """The queues of some partitions; those that are not there have none."""
    there = {number for number in numbers if type(number) is int and 0 <= number < len(topic.partitions)}
    return [topic.appends.setdefault(number, deque()) for number in sorted(there)]


def forget_empty(topic: Topic) -> None:
    """A topic without queues is the quick case."""
    for number in [number for number, queue in topic.appends.items() if not queue]:
        del topic.appends[number]
