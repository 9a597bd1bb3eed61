"""Assigns partitions to members: a pure function from the current to the wanted assignment.

``sticky`` is the only assignor.  It answers two questions in this order:

    balanced    no member has two partitions more than another
    sticky      among all balanced answers, one that moves the fewest partitions

An assignor that is only balanced reshuffles everything when one member joins;
one that is only sticky gives a late member nothing.  Both are known failures of
older brokers, so both are checked against every possible answer in the tests.

The function does not know about time, revocation or sessions; the coordinator
turns the distance between its answer and the present into safe small steps.

Cost: O(p log p + m log m) for p partitions and m members, on a change of
membership only.
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice


def sticky(
    current: Mapping[str, AbstractSet[int]], members: Collection[str], partitions: int
) -> dict[str, set[int]]:
    """Assign partitions 0 to ``partitions - 1`` evenly, moving as few of ``current`` as possible.

    ``current`` says who works on what now; its sets do not overlap.  Partitions
    in nobody's set are free and cost no move.  The same input gives the same
    answer, whatever the order of ``members``.
    """
    if not members:
        return {}
    shares = _shares(current, members, partitions)
    target = {member: set(sorted(current.get(member, ()))[:size]) for member, size in shares.items()}
    kept: set[int] = set().union(*target.values())
    free = iter([partition for partition in range(partitions) if partition not in kept])
    for member, size in shares.items():
        target[member].update(islice(free, size - len(target[member])))
    return target


def _shares(
    current: Mapping[str, AbstractSet[int]], members: Collection[str], partitions: int
) -> dict[str, int]:
    """How many partitions each member should have.

    The shares that are one larger go to the members that have the most now:
    there, and only there, the extra one can save a move.
    """
    ranked = sorted(members, key=lambda member: (-len(current.get(member, ())), member))
    size, larger = divmod(partitions, len(ranked))
    return {member: size + (rank < larger) for rank, member in enumerate(ranked)}
