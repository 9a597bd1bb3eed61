"""A group of Kafka's classic protocol: members join, a leader assigns, all continue together.

Each rebalance has two phases, and no member is answered before all have arrived.
In the first (join) the group learns its members and the protocols each supports; in
the second (sync) the leader, one of the members, sends the assignment of each.  The
group does not interpret assignments: they are bytes.

              a member joins, leaves, times out, or joins with new metadata
              .-----------------------------.------------------.
              v                             |                  |
    EMPTY --> PREPARING --- all have joined -> COMPLETING --- the leader's sync --> STABLE
      ^       |             or time is up;
      '-------' no member   a new generation
                is left

An eager member stops all its work before it joins; a cooperative one continues,
and lists its partitions in its metadata.  The group treats both alike.

A *static* member has a name (``instance``) besides its id.  A new process with that
name replaces the old one, keeps its assignment and causes no rebalance; the old one
is fenced: its requests are refused from then on.

A member without an id is given one first, and joins again with it.  If that response
is lost, only an unused id remains, which expires soon, and no dead member.

Invariants (asserted where they could break):

    I1  only members wait for a join or a sync, and for one of the two only
    I2  outside of PREPARING no member waits for a join; outside of COMPLETING none for a sync
    I3  a group with members has a leader, which is one of them
    I4  the generation only rises, and rises with every rebalance

Costs: a heartbeat is O(1); a join or a sync O(protocols of the member), the end of a
rebalance O(members); memory is what the members send as metadata.

The first rebalance of an empty group waits for more members (``gather_ms``), so that consumers that start
together are assigned once.  Each new member restarts that wait, up to the rebalance timeout of the first.

Left out: persistence, as in ``coordinator.py``: after a restart members are unknown,
and join again, in a later generation than any before (``broker/kafka/coordination.py``).
"""

from typing import Final, TypeVar

from penstock.groups.rebalance import (
    Committer,
    JoinRequest,
    JoinResult,
    KafkaMemberState,
    PendingResult,
    SyncRequest,
    SyncResult,
)
from penstock.groups.roster import ClassicMember, Roster
from penstock.wire.kafka.codes import Code

T = TypeVar("T")

EMPTY: Final = "Empty"
PREPARING: Final = "PreparingRebalance"
COMPLETING: Final = "CompletingRebalance"
STABLE: Final = "Stable"

MEMBERS_MAX: Final = 10_000  # Of one group, unless a setting says otherwise.
MEMBER_BYTES_MAX: Final = 1024 * 1024  # Metadata of a member: the names of thousands of topics.
SESSION_MS_MIN: Final = 1000  # Shorter, and a pause of the garbage collector looks like the end.
SESSION_MS_MAX: Final = 30 * 60 * 1000  # A member that is gone is in the way for this long at most.
NEW_MEMBER_MS: Final = 5 * 60 * 1000  # A new member cannot say that it is alive; so long it is believed.


class ClassicGroup:
    """The members of one group and the state of its rebalance."""

    def __init__(self, generation: int = 0) -> None:
        self.state: str = EMPTY
        self.generation = generation  # The first rebalance makes the next one.
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members = Roster()
        self.members_max = MEMBERS_MAX
        self._promised: dict[str, int] = {}  # Until when ids are valid that no member uses yet.
        self._joining: dict[str, PendingResult[JoinResult]] = {}
        self._syncing: dict[str, PendingResult[SyncResult]] = {}
        self._unsynced: set[str] = set()  # Members that have not asked for their assignment yet.
        self._rebalance_ends_ms = -1  # Members that have not joined by then are removed; -1: no rebalance.
        self._gather_until_ms = -1  # The first rebalance does not end before; -1: it may.
        self._gather_limit_ms = -1  # However many come.
        self._now_ms = 0

    @property
    def idle(self) -> bool:
        """Whether the group has no state that must be kept."""
        return not self.members and not self._promised

    # What members say.

    def join(self, request: JoinRequest, now_ms: int) -> PendingResult[JoinResult]:
        self._now_ms = max(self._now_ms, now_ms)
        pending: PendingResult[JoinResult] = PendingResult()
        error = self._check_joining(request)
        if error:
            pending.give(JoinResult(error, request.member))
        elif request.member == "":
            self._join_new(request, pending)
        elif self._promised.pop(request.member, None) is not None:
            self._add(request.member, request, pending)
        else:
            self._join_again(self.members[request.member], request, pending)
        return pending

    def sync(self, request: SyncRequest, now_ms: int) -> PendingResult[SyncResult]:
        """Get the assignment of this generation."""
        self._now_ms = max(self._now_ms, now_ms)
        pending: PendingResult[SyncResult] = PendingResult()
        error = self._check_syncing(request)
        if error:
            pending.give(SyncResult(error))
            return pending
        self._unsynced.discard(request.member)
        _replace(self._syncing, request.member, pending, SyncResult(Code.REBALANCE_IN_PROGRESS))
        if self.state == COMPLETING and request.member == self.leader:
            given = dict(request.assignments)
            for member in self.members:
                member.assignment = given.get(member.identity, b"")
            self.state = STABLE
        if self.state == STABLE:
            self._answer_syncs()
        if not self._unsynced:
            self._rebalance_ends_ms = -1
        return pending

    def heartbeat(self, member: str, instance: str | None, generation: int, now_ms: int) -> Code:
        """Renew a session; returns whether the member must join again."""
        self._now_ms = max(self._now_ms, now_ms)
        error = self.members.check(member, instance)
        if not error and generation != self.generation:
            error = Code.ILLEGAL_GENERATION
        if error:
            return error
        self._renew(self.members[member])
        return Code.REBALANCE_IN_PROGRESS if self.state == PREPARING else Code.NONE

    def leave(self, member: str, instance: str | None, now_ms: int) -> Code:
        """Remove a member; an operator may name a static one by its instance alone."""
        self._now_ms = max(self._now_ms, now_ms)
        if member == "" and instance is not None:
            member = self.members.static(instance) or ""
        if instance is None and self._promised.pop(member, None) is not None:
            self._go_on(changed=False)
            return Code.NONE
        error = self.members.check(member, instance)
        if not error:
            self._remove(member, Code.UNKNOWN_MEMBER_ID)
            self._go_on()
        return error

    def check_commit(self, by: Committer, now_ms: int) -> Code:
        """Check a commit: only members of this generation may commit; without members, any client."""
        self._now_ms = max(self._now_ms, now_ms)
        if by.generation < 0 and self.state == EMPTY:
            return Code.NONE
        if by.generation < 0 and by.member == "" and by.instance is None:
            return Code.NONE if by.transactional else Code.UNKNOWN_MEMBER_ID
        error = self.members.check(by.member, by.instance)
        if error:
            return error
        if by.generation != self.generation:
            return Code.ILLEGAL_GENERATION
        if self.state == COMPLETING and not by.transactional:
            return Code.REBALANCE_IN_PROGRESS
        self._renew(self.members[by.member])
        return Code.NONE

    # Time.

    def tick(self, now_ms: int) -> None:
        """Remove members whose session timed out, and end a rebalance whose time is up."""
        self._now_ms = max(self._now_ms, now_ms)
        silent = [m.identity for m in self.members if 0 <= self._deadline_ms(m) <= self._now_ms]
        late = [member for member, until_ms in self._promised.items() if until_ms <= self._now_ms]
        for member in late:
            del self._promised[member]
        for member in silent:
            self._remove(member, Code.UNKNOWN_MEMBER_ID)
        if silent or late:
            self._go_on(changed=bool(silent))
        if 0 <= self._gather_until_ms <= self._now_ms:
            self._gather_until_ms = -1
            self._go_on(changed=False)
        if 0 <= self._rebalance_ends_ms <= self._now_ms:
            self._end_rebalance()

    def dismiss(self, why: Code) -> None:
        """Another node coordinates the group now: end every wait of a member."""
        for member in self.members:
            self._dismiss(member.identity, why)

    def next_deadline_ms(self) -> int:
        """When ``tick`` may have something to do, or -1."""
        times = [self._deadline_ms(member) for member in self.members]
        times += self._promised.values()
        times += (self._rebalance_ends_ms, self._gather_until_ms)
        return min((time for time in times if time >= 0), default=-1)

    def subscriptions(self) -> list[tuple[str, bytes]]:
        """The metadata of each member for the protocol that it prefers, with the name of its client."""
        return [(m.request.client_id or m.identity, m.request.protocols[0][1]) for m in self.members]

    def describe(self) -> list[KafkaMemberState]:
        """The members, in the order in which they came."""
        return [
            KafkaMemberState(
                member.identity, member.instance, member.request.client_id, member.request.client_host,
                member.metadata(self.protocol), member.assignment,
            )
            for member in self.members
        ]  # fmt: skip

    # Checks.

    def _check_joining(self, request: JoinRequest) -> Code:
        if not SESSION_MS_MIN <= request.session_timeout_ms <= SESSION_MS_MAX:
            return Code.INVALID_SESSION_TIMEOUT
        if sum(len(metadata) for _, metadata in request.protocols) > MEMBER_BYTES_MAX:
            return Code.POLICY_VIOLATION
        if not self.members.fits(request) or (self.members and request.protocol_type != self.protocol_type):
            return Code.INCONSISTENT_GROUP_PROTOCOL
        if request.member == "":
            full = len(self.members) + len(self._promised) >= self.members_max
            comes_back = self.members.static(request.instance) is not None
            return Code.GROUP_MAX_SIZE_REACHED if full and not comes_back else Code.NONE
        promised = request.member in self._promised and request.instance is None
        return Code.NONE if promised else self.members.check(request.member, request.instance)

    def _check_syncing(self, request: SyncRequest) -> Code:
        error = self.members.check(request.member, request.instance)
        if error:
            return error
        if request.generation != self.generation:
            return Code.ILLEGAL_GENERATION
        if request.protocol_type not in (None, self.protocol_type) or request.protocol not in (
            None,
            self.protocol,
        ):
            return Code.INCONSISTENT_GROUP_PROTOCOL
        return Code.REBALANCE_IN_PROGRESS if self.state == PREPARING else Code.NONE

    # Joining.

    def _join_new(self, request: JoinRequest, pending: PendingResult[JoinResult]) -> None:
        before = self.members.static(request.instance)
        if before is not None:
            self._take_place(self.members[before], request, pending)
        elif request.instance is None and request.id_first:
            self._promised[request.new_member] = self._now_ms + request.session_timeout_ms
            pending.give(JoinResult(Code.MEMBER_ID_REQUIRED, request.new_member))
        else:
            self._add(request.new_member, request, pending)

    def _add(self, identity: str, request: JoinRequest, pending: PendingResult[JoinResult]) -> None:
        member = ClassicMember(identity, request)
        member.deadline_ms = self._now_ms + NEW_MEMBER_MS
        if not self.members:
            self.protocol_type = request.protocol_type
        self._gather(request)
        self.members.add(member)
        if self.leader is None:
            self.leader = identity
        self._rejoin(member, pending)

    def _gather(self, request: JoinRequest) -> None:
        """Wait for more members, if this is the first one, or one that has come while the group waits."""
        if self.state == EMPTY:
            self._gather_limit_ms = self._now_ms + request.rebalance_timeout_ms
        elif self._gather_until_ms < 0:
            return
        self._gather_until_ms = min(self._now_ms + request.gather_ms, self._gather_limit_ms)

    def _join_again(
        self, member: ClassicMember, request: JoinRequest, pending: PendingResult[JoinResult]
    ) -> None:
        same = member.request.protocols == request.protocols
        if same and (self.state == COMPLETING or (self.state == STABLE and member.identity != self.leader)):
            self._renew(member)
            pending.give(self._joined(member))  # It has missed the answer, most likely.
            return
        self.members.update(member, request)
        self._rejoin(member, pending)

    def _take_place(
        self, member: ClassicMember, request: JoinRequest, pending: PendingResult[JoinResult]
    ) -> None:
        """A static member has restarted: its former process is fenced, and its assignment stays."""
        before, led = member.identity, self.leader
        self._dismiss(before, Code.FENCED_INSTANCE_ID)
        self.members.remove(before)
        member.identity = request.new_member
        self.members.add(member)
        if before in self._unsynced:
            self._unsynced.remove(before)
            self._unsynced.add(request.new_member)
        if led == before:
            self.leader = request.new_member
        self.members.update(member, request)
        if self.state == STABLE and self.members.elected() == self.protocol:
            self._renew(member)
            pending.give(self._joined(member, None if request.can_skip else led))
        else:
            self._rejoin(member, pending)

    def _joined(self, member: ClassicMember, led: str | None = None) -> JoinResult:
        """The present generation, as the response to a join.

        ``led``: the leader's former id, if a static leader has restarted whose protocol version
        cannot say that it skips the assignment.  It then acts as a follower, and assigns nothing.
        """
        leads = member.identity == self.leader and led is None
        return JoinResult(
            Code.NONE,
            member.identity,
            self.generation,
            self.protocol_type,
            self.protocol,
            led or self.leader or "",
            self.members.lines(self.protocol) if leads else (),
            skip_assignment=leads and self.state == STABLE,
        )

    # Rebalances.

    def _rejoin(self, member: ClassicMember, pending: PendingResult[JoinResult]) -> None:
        _replace(
            self._joining, member.identity, pending, JoinResult(Code.REBALANCE_IN_PROGRESS, member.identity)
        )
        self._prepare()

    def _prepare(self) -> None:
        """Begin a rebalance unless one is under way; end its join phase if all have joined."""
        if self.state != PREPARING:
            for pending in self._syncing.values():
                pending.give(SyncResult(Code.REBALANCE_IN_PROGRESS))
            self._syncing.clear()
            self._unsynced.clear()
            self.state = PREPARING
            self._rebalance_ends_ms = self._now_ms + self._rebalance_timeout_ms()
        gathering = bool(self.members) and self._now_ms < self._gather_until_ms
        if not self._promised and len(self._joining) == len(self.members) and not gathering:
            self._begin_generation()

    def _rebalance_timeout_ms(self) -> int:
        return max([0, *(member.request.rebalance_timeout_ms for member in self.members)])

    def _go_on(self, *, changed: bool = True) -> None:
        """A member was removed: rebalance the others, or end their wait for it."""
        if self.state == PREPARING or (changed and self.state != EMPTY):
            self._prepare()

    def _end_rebalance(self) -> None:
        if self.state == PREPARING:
            self._begin_generation()
            return
        for member in list(self._unsynced):
            self._remove(member, Code.UNKNOWN_MEMBER_ID)
        self._prepare()

    def _begin_generation(self) -> None:
        """Begin a generation of all members that have joined, and of static ones until their session ends."""
        self._gather_until_ms = -1
        absent = [m for m in self.members if m.identity not in self._joining and m.instance is None]
        for member in absent:
            self._remove(member.identity, Code.UNKNOWN_MEMBER_ID)
        if self.members and not self._joining:
            self._rebalance_ends_ms = self._now_ms + max(self._rebalance_timeout_ms(), 1)
            return  # Static members, and none of them is there.
        self.generation += 1  # I4
        if not self.members:
            self._disband()
            return
        if self.leader not in self._joining:
            self.leader = next(iter(self._joining))
        self.protocol = self.members.elected()
        self.state = COMPLETING
        self._unsynced = set(self.members.ids())
        self._rebalance_ends_ms = self._now_ms + self._rebalance_timeout_ms()
        joining, self._joining = self._joining, {}
        for member in self.members:
            member.is_new = False
            self._renew(member)
        for identity, pending in joining.items():
            pending.give(self._joined(self.members[identity]))

    def _disband(self) -> None:
        assert not self._joining, "I1"
        assert self.leader is None, "I3"
        self.state = EMPTY
        self.protocol = None
        self._rebalance_ends_ms = -1

    def _answer_syncs(self) -> None:
        for identity, pending in self._syncing.items():
            member = self.members[identity]
            self._renew(member)
            pending.give(SyncResult(Code.NONE, self.protocol_type, self.protocol, member.assignment))
        self._syncing.clear()

    # Sessions.

    def _renew(self, member: ClassicMember) -> None:
        if not member.is_new:
            member.deadline_ms = self._now_ms + member.request.session_timeout_ms

    def _deadline_ms(self, member: ClassicMember) -> int:
        """When the session of a member ends; -1 while it waits for a rebalance, during which none ends."""
        waits = member.identity in self._syncing or (member.identity in self._joining and not member.is_new)
        return -1 if waits else member.deadline_ms

    def _remove(self, identity: str, why: Code) -> None:
        self.members.remove(identity)
        self._dismiss(identity, why)
        self._unsynced.discard(identity)
        if self.leader == identity:
            self.leader = next(iter(self.members.ids()), None)

    def _dismiss(self, identity: str, why: Code) -> None:
        """End the wait of a member with a result."""
        joining, syncing = self._joining.pop(identity, None), self._syncing.pop(identity, None)
        if joining is not None:
            joining.give(JoinResult(why, identity))
        if syncing is not None:
            syncing.give(SyncResult(why))


def _replace(
    pending_results: dict[str, PendingResult[T]], member: str, pending: PendingResult[T], instead: T
) -> None:
    """Wait for this result; an earlier request of the member is answered with ``instead``."""
    before = pending_results.get(member)
    pending_results[member] = pending
    if before is not None:
        before.give(instead)
