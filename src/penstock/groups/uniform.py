"""Which member of a consumer group gets which partition, over several topics.

    uniform    balanced over all topics together; members keep their partitions if possible
    range      each topic separately: neighbouring partitions, members in the order of their ids

If all members read the same topics, ``uniform`` is ``sticky`` (assignors.py), which is
exact: balanced, with the fewest moves.  If they do not, it keeps what may be kept, gives
the rest to the member with the fewest partitions, and moves one partition at a time from a
member with at least two more than another that reads the topic; the sum of the squares
falls with each move, so it terminates.

Cost: O(p log p) in the first case.  In the second O(moves x p x m), for the partitions and
members of one group, when its membership changes.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from penstock.groups.assignors import sticky

TopicIdPartition = tuple[bytes, int]  # The id of a topic, and a partition of it.
Shares = dict[str, set[TopicIdPartition]]  # By member.
Assigned = Mapping[str, AbstractSet[TopicIdPartition]]
Subscriptions = Mapping[str, AbstractSet[bytes]]  # The topics of each member.


def uniform(
    current: Assigned,
    reads: Subscriptions,
    sizes: Mapping[bytes, int],
) -> Shares:
    """Assign all partitions of ``sizes`` (by topic) that some member ``reads``."""
    if not reads:
        return {}
    subscriptions = list(reads.values())
    if all(topics == subscriptions[0] for topics in subscriptions):
        return _alike(current, reads, _partitions(subscriptions[0], sizes))
    return _unlike(current, reads, _partitions(set().union(*subscriptions), sizes))


def ranges(reads: Subscriptions, sizes: Mapping[bytes, int]) -> Shares:
    """Assign each topic by itself, in ranges of partitions."""
    shares: Shares = {member: set() for member in reads}
    for topic, size in sizes.items():
        members = sorted(member for member, topics in reads.items() if topic in topics)
        for rank, member in enumerate(members):
            first, last = rank * size // len(members), (rank + 1) * size // len(members)
            shares[member].update((topic, number) for number in range(first, last))
    return shares


def _partitions(topics: AbstractSet[bytes], sizes: Mapping[bytes, int]) -> list[TopicIdPartition]:
    return [(topic, number) for topic in sorted(topics & sizes.keys()) for number in range(sizes[topic])]


def _alike(current: Assigned, reads: Subscriptions, partitions: list[TopicIdPartition]) -> Shares:
    numbers = {partition: number for number, partition in enumerate(partitions)}
    held = {
        member: {numbers[partition] for partition in current.get(member, ()) if partition in numbers}
        for member in reads
    }
    target = sticky(held, list(reads), len(partitions))
    return {member: {partitions[number] for number in share} for member, share in target.items()}


def _unlike(current: Assigned, reads: Subscriptions, partitions: list[TopicIdPartition]) -> Shares:
    there = set(partitions)
    shares: Shares = {
        member: {
            partition
            for partition in current.get(member, ())
            if partition in there and partition[0] in topics
        }
        for member, topics in reads.items()
    }
    kept: set[TopicIdPartition] = set().union(*shares.values())
    for partition in partitions:
        if partition not in kept:
            shares[_least(shares, reads, partition[0])].add(partition)
    while _moved(shares, reads):
        pass
    return shares


def _least(shares: Shares, reads: Subscriptions, topic: bytes) -> str:
    """The member with the fewest partitions of those that read the topic."""
    readers = [member for member, topics in reads.items() if topic in topics]
    return min(readers, key=lambda member: (len(shares[member]), member))


def _moved(shares: Shares, reads: Subscriptions) -> bool:
    """Move one partition to a member that has at least two fewer; False if there is no such pair."""
    for rich in sorted(shares, key=lambda member: (-len(shares[member]), member)):
        for partition in sorted(shares[rich]):
            poor = _least(shares, reads, partition[0])
            if len(shares[rich]) >= len(shares[poor]) + 2:
                shares[rich].remove(partition)
                shares[poor].add(partition)
                return True
    return False
