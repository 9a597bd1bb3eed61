"""A group of Kafka's newer protocol (KIP-848): the broker assigns, and members follow one by one.

There are no rebalance rounds.  Each change of the group (members, subscriptions, number of
partitions) gives a new epoch and a new target assignment, and every member moves to it on
its own, by its heartbeats, while the others continue:

                   the target has fewer partitions           it has stopped working on them
      at an epoch --------------------------> must revoke: --------------------------.
           ^                                  stays at its epoch                     |
           |                                                                         v
           '---- gets free partitions of its target, and waits for the others ----- the target's epoch

This is the algorithm of ``coordinator.py``, over several topics and with Kafka's terms.  A
partition has one owner at most; a member that does not revoke a partition within its own
rebalance timeout is removed.

A static member that leaves temporarily keeps its partitions until its session ends; a new
process with the same name replaces it without a change of the group.

Invariants (asserted where they could break):

    I1  a partition has one owner: the member that it was assigned to and that has not yet revoked it
    I2  the partitions of a member are in its target, or are being revoked

Costs: a heartbeat is O(partitions of that member), and one that changes the group what its
assignor costs; memory O(partitions + members).

Left out: persistence; after a restart members are unknown and join again, at a later epoch.  Racks.
"""

from collections.abc import Iterable
from typing import Final

from penstock.groups.heartbeats import (
    JOIN,
    LEAVE,
    LEAVE_FOR_NOW,
    ConsumerMemberState,
    HeartbeatResult,
    MemberHeartbeat,
    Topics,
)
from penstock.groups.patterns import NOTHING_TRIED, Tried, compiled, problem_of
from penstock.groups.rebalance import Committer
from penstock.groups.uniform import Shares, TopicIdPartition, ranges, uniform
from penstock.wire.kafka.codes import Code

SESSION_MS: Final = 45_000  # As Kafka's.
HEARTBEAT_MS: Final = 2_000  # A change is heard of after this; Kafka's five seconds are long in a test.
SOON_MS: Final = 200  # For a member that waits for what others have not given up yet.
MEMBERS_MAX: Final = 10_000  # Of one group, unless a setting says otherwise.
PATTERNS_MAX: Final = 20  # Different regular expressions in one group; a new topic is matched against each.
ASSIGNORS: Final = ("uniform", "range")
PROTOCOL_TYPE: Final = "consumer"  # All members of such a group are consumers.


class ConsumerMember:
    def __init__(self, request: MemberHeartbeat) -> None:
        self.identity = request.member
        self.instance = request.instance
        self.client_id = request.client_id
        self.client_host = request.client_host
        self.rebalance_timeout_ms = SESSION_MS
        self.topics: frozenset[str] = frozenset()
        self.pattern = ""
        self.assignor = ""
        self.epoch = JOIN
        self.previous_epoch = JOIN
        self.assigned: set[TopicIdPartition] = set()  # Partitions assigned to it ...
        self.revoking: set[TopicIdPartition] = set()  # ... and those that it must revoke and still has.
        self.deadline_ms = 0
        self.give_up_by_ms = -1  # It must have given up by then; -1: there is nothing.


class ConsumerGroup:
    """The members of one group, and where each is on its way to the target."""

    def __init__(self, epoch: int = 0) -> None:
        self.members_max = MEMBERS_MAX
        self.session_ms = SESSION_MS  # These two may be set by operators.
        self.heartbeat_ms = HEARTBEAT_MS
        self.epoch = epoch  # The first change makes the next one.
        self.assignor = ASSIGNORS[0]
        self._members: dict[str, ConsumerMember] = {}
        self._target: Shares = {}
        self._owners: dict[TopicIdPartition, str] = {}
        self._topics: Topics = {}  # All that there are, as they were when the group looked last.
        self._matched: dict[str, list[str]] = {}  # Of these, what each pattern matches.
        self._read: dict[str, tuple[bytes, int]] = {}  # Of these, what members read.
        self._now_ms = 0

    @property
    def generation(self) -> int:
        """Its epoch, where groups of both kinds are meant."""
        return self.epoch

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def idle(self) -> bool:
        """Whether there are no members."""
        return not self._members

    @property
    def state(self) -> str:
        if not self._members:
            return "Empty"
        arrived = all(
            member.epoch in (self.epoch, LEAVE_FOR_NOW) and member.assigned == self._target[member.identity]
            for member in self._members.values()
        )
        return "Stable" if arrived else "Reconciling"

    # What members say.

    def heartbeat(
        self, request: MemberHeartbeat, topics: Topics, now_ms: int, tried: Tried = NOTHING_TRIED
    ) -> HeartbeatResult:
        """Join, stay or leave; ``topics`` are all topics, and another object whenever they have changed."""
        self._now_ms = max(self._now_ms, now_ms)
        if request.epoch in (LEAVE, LEAVE_FOR_NOW):
            return self._leave(request)
        refusal = self._check(request)
        if refusal is not None:
            return refusal
        changed = self._take_in(request) if request.epoch == JOIN else False
        member = self._members[request.member]
        changed |= self._update(member, request)
        if topics is not self._topics:
            self._match(self._patterns(), topics, tried)
            changed |= self._read != self._reading()
        elif member.pattern and member.pattern not in self._matched:
            self._match({member.pattern}, topics, tried)
        if changed:
            self._retarget()
        return self._go_on(member, request)

    def leave(self, member: str, instance: str | None, now_ms: int) -> Code:
        """An operator removes a member, by its id or by its instance."""
        self._now_ms = max(self._now_ms, now_ms)
        found = self._members.get(member) or self._static(instance)
        if found is None:
            return Code.UNKNOWN_MEMBER_ID
        self._remove(found)
        self._retarget()
        return Code.NONE

    def check_commit(self, by: Committer, now_ms: int) -> Code:
        """Whether this member id and epoch may commit or fetch offsets."""
        self._now_ms = max(self._now_ms, now_ms)
        if by.generation < 0 and by.member == "":
            return Code.NONE if by.transactional else Code.UNKNOWN_MEMBER_ID
        member = self._members.get(by.member)
        if member is None:
            return Code.UNKNOWN_MEMBER_ID
        return Code.NONE if by.generation == member.epoch else Code.STALE_MEMBER_EPOCH

    # Time.

    def tick(self, now_ms: int) -> None:
        """Evict members that send no heartbeat or do not release revoked partitions in time."""
        self._now_ms = max(self._now_ms, now_ms)
        late = [member for member in self._members.values() if self._deadline_ms(member) <= self._now_ms]
        for member in late:
            self._remove(member)
        if late:
            self._retarget()

    def dismiss(self, why: Code) -> None:
        """Another node coordinates the group now; members of this kind of group never wait."""

    def next_deadline_ms(self) -> int:
        """When ``tick`` may have something to do, or -1."""
        return min(map(self._deadline_ms, self._members.values()), default=-1)

    def describe(self) -> list[ConsumerMemberState]:
        """The members, in the order in which they came."""
        return [
            ConsumerMemberState(
                member=member.identity,
                instance=member.instance,
                epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                topics=member.topics,
                pattern=member.pattern,
                assigned=frozenset(member.assigned),
                target=frozenset(self._target[member.identity]),
            )
            for member in self._members.values()
        ]

    def topics_of(self, member: str) -> set[str]:
        """The topics that a member reads, of those there are."""
        return self._topics_read(self._members[member])

    # Checks.

    def _check(self, request: MemberHeartbeat) -> HeartbeatResult | None:
        member = self._members.get(request.member)
        code = Code.NONE
        if request.assignor and request.assignor not in ASSIGNORS:
            code, why = Code.UNSUPPORTED_ASSIGNOR, f"there are {', '.join(ASSIGNORS)}"
        elif request.pattern and (problem := self._problem_of(request.pattern)):
            code, why = Code.INVALID_REGULAR_EXPRESSION, problem
        elif request.epoch == JOIN:
            code, why = self._check_joining(request)
        elif member is None:
            code, why = Code.UNKNOWN_MEMBER_ID, "join again"
        elif member.epoch == LEAVE_FOR_NOW or (
            request.instance is not None and request.instance != member.instance
        ):
            code, why = Code.FENCED_INSTANCE_ID, "another process has its name"
        elif request.epoch != member.epoch and not _missed_the_last(request, member):
            code, why = Code.FENCED_MEMBER_EPOCH, f"it is at epoch {member.epoch}; join again"
        return HeartbeatResult(code, request.member, why=why) if code else None

    def _problem_of(self, pattern: str) -> str:
        """Why members may not subscribe to a pattern; empty if they may."""
        if pattern not in self._matched and len(self._patterns()) >= PATTERNS_MAX:
            return f"the group has {PATTERNS_MAX} different patterns, which is the limit"
        return problem_of(pattern)

    def _check_joining(self, request: MemberHeartbeat) -> tuple[Code, str]:
        if (
            not request.member
            or request.rebalance_timeout_ms <= 0
            or (request.topics is None and request.pattern is None)
        ):
            return Code.INVALID_REQUEST, "a member joins with an id, a rebalance timeout and topics"
        static = self._static(request.instance)
        if static is not None and static.identity != request.member and static.epoch != LEAVE_FOR_NOW:
            return Code.UNRELEASED_INSTANCE_ID, f"{request.instance} is in the group already"
        full = request.member not in self._members and len(self._members) >= self.members_max
        return (Code.GROUP_MAX_SIZE_REACHED, f"there are {self.members_max}") if full else (Code.NONE, "")

    def _static(self, instance: str | None) -> ConsumerMember | None:
        if instance is None:
            return None
        return next((member for member in self._members.values() if member.instance == instance), None)

    # Members.

    def _take_in(self, request: MemberHeartbeat) -> bool:
        """Add a member, or one that joins again; True: the group has changed."""
        before = self._members.get(request.member)
        if before is not None:
            self._release(before, before.assigned | before.revoking)  # It has restarted, and has nothing.
            before.assigned, before.revoking, before.epoch = set(), set(), JOIN
            return False
        member = ConsumerMember(request)
        static = self._static(request.instance)
        if static is not None:
            self._take_place(static, member)
            return False
        self._members[request.member] = member
        self._target[request.member] = set()
        return True

    def _take_place(self, static: ConsumerMember, member: ConsumerMember) -> None:
        """A static member replaces its former process, which has left temporarily."""
        self._release(static, static.assigned | static.revoking)
        del self._members[static.identity]
        self._members[member.identity] = member
        self._target[member.identity] = self._target.pop(static.identity)
        member.topics, member.pattern, member.assignor = static.topics, static.pattern, static.assignor

    def _leave(self, request: MemberHeartbeat) -> HeartbeatResult:
        member = self._members.get(request.member)
        if member is None:
            return HeartbeatResult(Code.UNKNOWN_MEMBER_ID, request.member)
        if request.epoch == LEAVE_FOR_NOW and member.instance is not None:
            member.epoch = LEAVE_FOR_NOW
        else:
            self._remove(member)
            self._retarget()
        return HeartbeatResult(Code.NONE, request.member, request.epoch)

    def _remove(self, member: ConsumerMember) -> None:
        self._release(member, member.assigned | member.revoking)
        del self._members[member.identity]
        del self._target[member.identity]

    def _update(self, member: ConsumerMember, request: MemberHeartbeat) -> bool:
        """Update the member from its heartbeat; True: that changes the group."""
        member.deadline_ms = self._now_ms + self.session_ms
        if request.rebalance_timeout_ms > 0:
            member.rebalance_timeout_ms = request.rebalance_timeout_ms
        before = (member.topics, member.pattern, member.assignor)
        member.topics = member.topics if request.topics is None else request.topics
        member.pattern = member.pattern if request.pattern is None else request.pattern
        member.assignor = member.assignor if request.assignor is None else request.assignor
        return before != (member.topics, member.pattern, member.assignor)

    # The target.

    def unmatched(self, pattern: str | None, topics: Topics) -> dict[str, list[str]]:
        """The names that a heartbeat with this pattern has to match: slow, so done in a thread."""
        work = {}
        for each in self._patterns() | ({pattern} if pattern else set()):
            names = self._untried(each, topics)
            if names and not problem_of(each):
                work[each] = names
        return work

    def covers(self, topic: str) -> bool:
        """Whether a member reads a topic, also one that was just created."""
        if any(topic in member.topics for member in self._members.values()):
            return True
        if topic in self._topics:
            return any(topic in names for names in self._matched.values())
        return any(compiled(pattern)(topic) for pattern in self._patterns())

    def matched(self, pattern: str) -> list[str] | None:
        """The topics that matched a pattern of members last time; None if no member has it."""
        return self._matched.get(pattern)

    def _patterns(self) -> set[str]:
        return {member.pattern for member in self._members.values()} - {""}

    def _untried(self, pattern: str, topics: Topics) -> list[str]:
        if pattern not in self._matched:
            return list(topics)
        return [] if topics is self._topics else [name for name in topics if name not in self._topics]

    def _match(self, patterns: Iterable[str], topics: Topics, tried: Tried) -> None:
        """Match the patterns with new names; earlier names are not matched again."""
        for pattern in patterns:
            kept = [name for name in self._matched.get(pattern, ()) if name in topics]
            new = [name for name in self._untried(pattern, topics) if tried.matches(pattern, name)]
            self._matched[pattern] = kept + new
        self._topics = topics

    def _topics_read(self, member: ConsumerMember) -> set[str]:
        read = {name for name in member.topics if name in self._topics}
        return read.union(self._matched[member.pattern]) if member.pattern else read

    def _reading(self) -> dict[str, tuple[bytes, int]]:
        """Id and number of partitions of all topics that members read."""
        names: set[str] = set().union(*map(self._topics_read, self._members.values()))
        return {name: self._topics[name] for name in names}

    def _retarget(self) -> None:
        """Begin a new epoch with a new target assignment."""
        self.epoch += 1
        used = self._patterns()
        self._matched = {pattern: names for pattern, names in self._matched.items() if pattern in used}
        self._read = self._reading()
        reads = {
            member.identity: {self._read[name][0] for name in self._topics_read(member)}
            for member in self._members.values()
        }
        sizes = dict(self._read.values())
        self.assignor = self._elected()
        shares = ranges(reads, sizes) if self.assignor == "range" else uniform(self._target, reads, sizes)
        self._target = {identity: shares.get(identity, set()) for identity in self._members}

    def _elected(self) -> str:
        """The assignor that most members ask for."""
        wanted = [member.assignor for member in self._members.values() if member.assignor]
        return max(ASSIGNORS, key=wanted.count)

    # The way there.

    def _go_on(self, member: ConsumerMember, request: MemberHeartbeat) -> HeartbeatResult:
        """Move a member one step towards its target; returns its response."""
        was = frozenset(member.assigned)
        gave_up = not member.revoking or (request.owned is not None and not request.owned & member.revoking)
        if gave_up:
            self._release(member, member.revoking)
            member.revoking, member.give_up_by_ms = set(), -1
            self._step(member, request)
        all_told = request.epoch != member.epoch or (request.owned is not None and request.topics is not None)
        now = frozenset(member.assigned)
        waits = bool(member.revoking) or now != self._target[member.identity]
        return HeartbeatResult(
            Code.NONE,
            member.identity,
            member.epoch,
            min(SOON_MS, self.heartbeat_ms) if waits else self.heartbeat_ms,
            now if all_told or now != was else None,
        )

    def _step(self, member: ConsumerMember, request: MemberHeartbeat) -> None:
        target = self._target[member.identity]
        owned = member.assigned if request.owned is None else set(request.owned)
        surplus = member.assigned - target
        member.assigned -= surplus
        self._release(member, surplus - owned)
        member.revoking = surplus & owned
        if member.revoking:
            member.give_up_by_ms = self._now_ms + member.rebalance_timeout_ms
            return  # It stays at its epoch until it has.
        for partition in target - member.assigned:
            if self._owners.get(partition) is None:
                self._owners[partition] = member.identity
                member.assigned.add(partition)
        assert member.assigned <= target, "I2"
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch

    def _release(self, member: ConsumerMember, partitions: set[TopicIdPartition]) -> None:
        for partition in partitions:
            assert self._owners.pop(partition) == member.identity, "I1"

    def _deadline_ms(self, member: ConsumerMember) -> int:
        if member.give_up_by_ms >= 0:
            return min(member.deadline_ms, member.give_up_by_ms)
        return member.deadline_ms


def _missed_the_last(request: MemberHeartbeat, member: ConsumerMember) -> bool:
    """Whether it is one epoch behind because the last response was lost."""
    return (
        request.epoch == member.previous_epoch
        and request.owned is not None
        and request.owned <= member.assigned
    )
