"""Refusals of sequence numbers in a cluster: only the owner of a partition may refuse them.

A former owner that does not know that it was replaced lacks the batches that its successor accepted, and
may have batches that were never acknowledged: a producer reuses the numbers of a batch that was
definitely not written.  So before it refuses a producer's numbers, the node asks the store whether it is
still the owner (``OwnerLease.verify``).

Cost: nothing on a single node; in a cluster, one look at each answer, and a request to the store per refusal.
"""

from typing import Final

from penstock.broker.publish.incoming import Look
from penstock.broker.state import State, Topic
from penstock.broker.steps import Durable, Steps
from penstock.errors import NotOwner, PenstockError, SequenceOutOfOrder, SequenceReused
from penstock.model.message import Receipt

DOUBTFUL: Final = (SequenceOutOfOrder, SequenceReused)  # They follow from the batches that this node has.


def is_doubtful(state: State, answers: list[Receipt | PenstockError]) -> bool:
    """Whether an answer would be wrong if another node owned the partition by now."""
    return state.lease.limited and any(isinstance(each, DOUBTFUL) for each in answers)


def verified(
    state: State,
    topic: Topic,
    looks: list[Look],
    answers: list[Receipt | PenstockError],
    waits: list[Durable],
) -> Steps[list[Receipt | PenstockError]]:
    """The answers, with ``NotOwner`` instead of doubtful ones unless this node is still the owner."""
    is_owner = yield from state.lease.verify()
    yield from waits
    return [
        NotOwner(topic=topic.name, partition=look.number, owner=-1, epoch=0)
        if isinstance(answer, DOUBTFUL) and not is_owner
        else answer
        for look, answer in zip(looks, answers, strict=True)
    ]
