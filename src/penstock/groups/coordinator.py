"""Assigns the partitions of a stream group, without pausing members whose partitions do not move.

Every partition has at most one owner, and only the owner may commit on it.  A change of
membership gives a new target (see ``assignors.sticky``); from there each
partition that must move takes these steps, on its own, while the others continue:

                  target names another          owner's heartbeat is without it,
                  member                        or it left, or its session expired
      owned by A --------------------> owned by A, --------------------> free
          ^                            A must revoke it                   |
          '------------- the heartbeat of the member that -----------------'
                         the target names (B, or A again)

So there is no barrier at which all members stop: a member learns of its changes
by its own heartbeats, and a partition is never with two members.  A member that
must revoke a partition finishes and commits first, as its owner.

Invariants (asserted where they could break):

    I1  both tables of owners agree: a partition is freed by its owner only
    I2  every partition that is not left out is in exactly one member's target, if there are members

Costs: a heartbeat is O(partitions of that member); a join, leave or expiry
O(p log p + m log m); memory O(p + m).

Left out: persistence.  After a restart members join again, which they must be
able to do anyway, and committed offsets are kept elsewhere.
"""

from dataclasses import dataclass

from penstock.groups.assignors import sticky
from penstock.groups.membership import Membership


@dataclass(frozen=True, slots=True)
class Assignment:
    """The response to a member's heartbeat."""

    generation: int
    partitions: frozenset[int]  # Work on these now.
    revoke: frozenset[int]  # Finish and commit these, then heartbeat without them.


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """A member as an operator sees it."""

    member: str
    owned: frozenset[int]  # What it alone may work on now, including what it is to give up.
    assigned: frozenset[int]  # What it will own when all moves are done.
    deadline_ms: int  # Its session expires then, unless it is heard from.


class Coordinator:
    """Assigns the partitions of one topic to the members of one group.

    ``now_ms`` is steady time.  A member that is unknown (never joined, left or
    expired) must stop all its work and join again.
    """

    def __init__(self, partitions: int, session_timeout_ms: int) -> None:
        assert partitions > 0, "a topic has at least one partition"
        self.generation = 0  # Rises with every change of the target.
        self._membership = Membership(session_timeout_ms)
        self._owners: list[str | None] = [None] * partitions  # By partition; None: free.
        self._absent: frozenset[int] = frozenset()  # Not assigned to any member.
        self._owned: dict[str, set[int]] = {}  # By member: the same fact as _owners.
        self._target: dict[str, set[int]] = {}  # By member: where this generation is going.
        self._answered: dict[
            str, int
        ] = {}  # By member: the generation of its last answer, -1 before the first.

    def join(self, member: str, now_ms: int) -> None:
        """Add a member; one that is a member already is only refreshed."""
        if self._membership.join(member, now_ms):
            self._owned[member] = set()
            self._answered[member] = -1
            self._retarget()

    def heartbeat(self, member: str, owned: frozenset[int], now_ms: int) -> Assignment | None:
        """Renew a session, and move its partitions one step on; None: unknown member.

        ``owned`` is what the member works on right now.  What it was to revoke
        and is not in there any more is free for others at once.
        """
        if not self._membership.refresh(member, now_ms):
            return None
        target = self._target[member]
        self._free(member, self._owned[member] - target - owned)
        self._give_what_is_free(member)
        self._answered[member] = self.generation
        held = self._owned[member]
        work = frozenset(held & target)
        # What a member believes to own and does not (it was away for too long)
        # is to be stopped too.
        return Assignment(self.generation, work, frozenset((held | owned) - work))

    def leave(self, member: str, now_ms: int) -> None:
        """A member leaves; its partitions are free at once."""
        if self._membership.leave(member, now_ms):
            self._forget(member)
            self._retarget()

    def tick(self, now_ms: int) -> list[str]:
        """Remove members whose session has expired; returns them."""
        gone = self._membership.expire(now_ms)
        for member in gone:
            self._forget(member)
        if gone:
            self._retarget()
        return gone

    def next_deadline_ms(self) -> int:
        """When ``tick`` may have something to do, or -1."""
        return self._membership.next_deadline_ms()

    def owner(self, partition: int) -> str | None:
        """The member that may commit on a partition now, if any."""
        return self._owners[partition]

    def has_news(self, member: str) -> bool:
        """Whether a heartbeat would return something new to this member, so that it is worth waking.

        An unknown member has news: it must join again.
        """
        answered = self._answered.get(member)
        if answered != self.generation:
            return True
        waiting = self._target[member] - self._owned[member]
        return any(self._owners[partition] is None for partition in waiting)

    def members(self) -> list[MemberInfo]:
        return [
            MemberInfo(
                member,
                frozenset(self._owned[member]),
                frozenset(self._target[member]),
                self._membership.deadline_ms(member),
            )
            for member in self._membership.names()
        ]

    def resize(self, partitions: int) -> None:
        """Add new partitions of the topic."""
        new = partitions - len(self._owners)
        assert new >= 0, "a topic never loses a partition"
        if new:
            self._owners.extend([None] * new)
            self._retarget()

    def leave_out(self, absent: frozenset[int]) -> None:
        """Leave these partitions unassigned: they are revoked at once, since they cannot be read."""
        if absent != self._absent:
            self._absent = absent
            for member, owned in self._owned.items():
                self._free(member, owned & absent)
            self._retarget()

    def _retarget(self) -> None:
        """Set the nearest balanced assignment as the target.

        Nearest to who owns what, not to the last target: a move that was
        planned and not made yet is cheap to forget.
        """
        numbers = [number for number in range(len(self._owners)) if number not in self._absent]
        indexes = {number: index for index, number in enumerate(numbers)}
        owned = {member: {indexes[number] for number in held} for member, held in self._owned.items()}
        target = sticky(owned, self._membership.names(), len(numbers))
        self._target = {member: {numbers[index] for index in given} for member, given in target.items()}
        self.generation += 1
        assert not target or sum(map(len, target.values())) == len(numbers), "I2"

    def _give_what_is_free(self, member: str) -> None:
        owned = self._owned[member]
        for partition in self._target[member] - owned:
            if self._owners[partition] is None:
                self._owners[partition] = member
                owned.add(partition)

    def _free(self, member: str, partitions: set[int]) -> None:
        for partition in partitions:
            assert self._owners[partition] == member, "I1"
            self._owners[partition] = None
            self._owned[member].discard(partition)

    def _forget(self, member: str) -> None:
        self._free(member, set(self._owned[member]))
        del self._owned[member]
        del self._answered[member]
