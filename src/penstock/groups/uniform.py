"""Which member of a consumer group gets which partition, over several topics.

    uniform    as even as can be over all topics together, and what a member has it keeps if it can
    range      each topic by itself: neighbouring partitions, members in the order of their ids

If all members read the same topics, ``uniform`` is ``sticky`` (assignors.py), which is
exact: balanced, with the fewest moves.  If they do not, it keeps what may be kept, gives
the rest to whoever has least, and moves one partition at a time from who has two more
than another that reads the topic; the sum of the squares falls with each move, so it ends.

Cost: O(p log p) in the first case.  In the second O(moves x p x m), for the partitions and
members of one group, when its membership changes.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from penstock.groups.assignors import sticky

Place = tuple[bytes, int]  # The id of a topic, and a partition of it.
Shares = dict[str, set[Place]]  # By member.
Held = Mapping[str, AbstractSet[Place]]
Reads = Mapping[str, AbstractSet[bytes]]  # The topics of each member.


def uniform(
    current: Held,
    reads: Reads,
    sizes: Mapping[bytes, int],
) -> Shares:
    """Share out all partitions of ``sizes`` (by topic) that some member ``reads``."""
    if not reads:
        return {}
    subscriptions = list(reads.values())
    if all(topics == subscriptions[0] for topics in subscriptions):
        return _alike(current, reads, _places(subscriptions[0], sizes))
    return _unlike(current, reads, _places(set().union(*subscriptions), sizes))


def ranges(reads: Reads, sizes: Mapping[bytes, int]) -> Shares:
    """Share out each topic by itself, in neighbouring partitions."""
    shares: Shares = {member: set() for member in reads}
    for topic, size in sizes.items():
        members = sorted(member for member, topics in reads.items() if topic in topics)
        for rank, member in enumerate(members):
            first, last = rank * size // len(members), (rank + 1) * size // len(members)
            shares[member].update((topic, number) for number in range(first, last))
    return shares


def _places(topics: AbstractSet[bytes], sizes: Mapping[bytes, int]) -> list[Place]:
    return [(topic, number) for topic in sorted(topics & sizes.keys()) for number in range(sizes[topic])]


def _alike(current: Held, reads: Reads, places: list[Place]) -> Shares:
    numbers = {place: number for number, place in enumerate(places)}
    held = {
        member: {numbers[place] for place in current.get(member, ()) if place in numbers} for member in reads
    }
    target = sticky(held, list(reads), len(places))
    return {member: {places[number] for number in share} for member, share in target.items()}


def _unlike(current: Held, reads: Reads, places: list[Place]) -> Shares:
    there = set(places)
    shares: Shares = {
        member: {place for place in current.get(member, ()) if place in there and place[0] in topics}
        for member, topics in reads.items()
    }
    kept: set[Place] = set().union(*shares.values())
    for place in places:
        if place not in kept:
            shares[_least(shares, reads, place[0])].add(place)
    while _moved(shares, reads):
        pass
    return shares


def _least(shares: Shares, reads: Reads, topic: bytes) -> str:
    """Of those who read the topic, the one with the fewest partitions."""
    readers = [member for member, topics in reads.items() if topic in topics]
    return min(readers, key=lambda member: (len(shares[member]), member))


def _moved(shares: Shares, reads: Reads) -> bool:
    """Move one partition from who has two more than another that could have it; False: there is none."""
    for rich in sorted(shares, key=lambda member: (-len(shares[member]), member)):
        for place in sorted(shares[rich]):
            poor = _least(shares, reads, place[0])
            if len(shares[rich]) >= len(shares[poor]) + 2:
                shares[rich].remove(place)
                shares[poor].add(place)
                return True
    return False
