"""A group of Kafka's classic protocol: members meet, one of them assigns, all go on together.

The members agree in rounds.  A round has two meetings, and nobody is answered
before all are there: at the first (join) the group learns who is in, and what each
can do; at the second (sync) the leader, a member like the others, brings what it
has assigned to each.  What is assigned, and by which rule, the group does not know:
it carries bytes.

              a member comes, goes, is silent, or joins with something new
              .-----------------------------.------------------.
              v                             |                  |
    EMPTY --> PREPARING --- all are there --> COMPLETING --- the leader's sync --> STABLE
      ^       |             or time is up;
      '-------' nobody      a new generation
                is left

An eager member has stopped all its work when it joins; a cooperative one goes on,
and names what it works on in its metadata.  To the group that is the same.

A *static* member has a name (``instance``) beside its id.  If a process of that name
comes anew, it takes the place of the one before, with its assignment and without a
round, and the one before is fenced: its calls are refused for good.

Who has no id yet is told one first, and joins again with it, so that an answer that
got lost leaves an id that is forgotten soon, and not a member that never comes.

Invariants (asserted where they could break):

    I1  whoever waits in a meeting is a member, and waits in one of them only
    I2  outside of PREPARING nobody waits for a join; outside of COMPLETING nobody for a sync
    I3  a group with members has a leader, who is one of them
    I4  the generation only rises, and rises with every round

Costs: a heartbeat is O(1); a join or a sync O(protocols of the member), the end of a
round O(members); memory what the members brought along.

The first round of a group that nobody was in waits for more members (``gather_ms``), so that consumers that
start together are assigned once and not again with each that comes.  Whoever comes meanwhile makes the wait
begin anew, up to the rebalance timeout of the first member.

Left out: persistence, as in ``coordinator.py``: after a restart members are unknown,
and join again, in a generation after all that were before (``broker/kafka/coordination.py``).
"""

from typing import Final, TypeVar

from penstock.groups.roster import Member, Roster
from penstock.groups.rounds import Committer, Joined, Joining, MemberState, Synced, Syncing, Ticket
from penstock.wire.kafka.codes import Code

T = TypeVar("T")

EMPTY: Final = "Empty"
PREPARING: Final = "PreparingRebalance"
COMPLETING: Final = "CompletingRebalance"
STABLE: Final = "Stable"

MEMBERS_MAX: Final = 10_000  # Of one group, unless a setting says otherwise.
MEMBER_BYTES_MAX: Final = 1024 * 1024  # What a member brings along: the names of thousands of topics.
SESSION_MS_MIN: Final = 1000  # Shorter, and a pause of the garbage collector looks like the end.
SESSION_MS_MAX: Final = 30 * 60 * 1000  # A member that is gone is in the way for this long at most.
NEW_MEMBER_MS: Final = 5 * 60 * 1000  # A new member cannot say that it is alive; so long it is believed.


class ClassicGroup:
    """The members of one group, and the round they are in."""

    def __init__(self, generation: int = 0) -> None:
        self.state: str = EMPTY
        self.generation = generation  # The first round makes the next one.
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members = Roster()
        self.members_max = MEMBERS_MAX
        self._promised: dict[str, int] = {}  # Ids that nobody has joined with yet, and until when they hold.
        self._joining: dict[str, Ticket[Joined]] = {}
        self._syncing: dict[str, Ticket[Synced]] = {}
        self._unsynced: set[str] = set()  # Members that have not asked for their assignment yet.
        self._meeting_ends_ms = -1  # Who has not come to the meeting by then is out; -1: there is none.
        self._gather_until_ms = -1  # The first round does not end before; -1: it may.
        self._gather_limit_ms = -1  # However many come.
        self._now_ms = 0

    @property
    def idle(self) -> bool:
        """Whether there is nothing in it that would be missed."""
        return not self.members and not self._promised

    # What members say.

    def join(self, told: Joining, now_ms: int) -> Ticket[Joined]:
        """Be in the next generation."""
        self._now_ms = max(self._now_ms, now_ms)
        ticket: Ticket[Joined] = Ticket()
        error = self._check_joining(told)
        if error:
            ticket.give(Joined(error, told.member))
        elif told.member == "":
            self._join_new(told, ticket)
        elif self._promised.pop(told.member, None) is not None:
            self._add(told.member, told, ticket)
        else:
            self._join_again(self.members[told.member], told, ticket)
        return ticket

    def sync(self, told: Syncing, now_ms: int) -> Ticket[Synced]:
        """Get the assignment of this generation."""
        self._now_ms = max(self._now_ms, now_ms)
        ticket: Ticket[Synced] = Ticket()
        error = self._check_syncing(told)
        if error:
            ticket.give(Synced(error))
            return ticket
        self._unsynced.discard(told.member)
        _replace(self._syncing, told.member, ticket, Synced(Code.REBALANCE_IN_PROGRESS))
        if self.state == COMPLETING and told.member == self.leader:
            given = dict(told.assignments)
            for member in self.members:
                member.assignment = given.get(member.identity, b"")
            self.state = STABLE
        if self.state == STABLE:
            self._answer_syncs()
        if not self._unsynced:
            self._meeting_ends_ms = -1
        return ticket

    def heartbeat(self, member: str, instance: str | None, generation: int, now_ms: int) -> Code:
        """Say that the member is alive; hear whether it must join again."""
        self._now_ms = max(self._now_ms, now_ms)
        error = self.members.check(member, instance)
        if not error and generation != self.generation:
            error = Code.ILLEGAL_GENERATION
        if error:
            return error
        self._renew(self.members[member])
        return Code.REBALANCE_IN_PROGRESS if self.state == PREPARING else Code.NONE

    def leave(self, member: str, instance: str | None, now_ms: int) -> Code:
        """Go; a static member may be named by its instance alone, by an operator."""
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
        """Whether offsets may be committed: by a member of this generation; by anybody if there is none."""
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
        """Put out whoever is silent, and end a meeting whose time is up."""
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
        if 0 <= self._meeting_ends_ms <= self._now_ms:
            self._end_meeting()

    def next_deadline_ms(self) -> int:
        """When ``tick`` may have something to do, or -1."""
        times = [self._deadline_ms(member) for member in self.members]
        times += self._promised.values()
        times += (self._meeting_ends_ms, self._gather_until_ms)
        return min((time for time in times if time >= 0), default=-1)

    def subscriptions(self) -> list[tuple[str, bytes]]:
        """What each member brought along for the protocol it likes best, with the name of its client."""
        return [(m.told.client_id or m.identity, m.told.protocols[0][1]) for m in self.members]

    def describe(self) -> list[MemberState]:
        """The members, in the order in which they came."""
        return [
            MemberState(
                member.identity, member.instance, member.told.client_id, member.told.client_host,
                member.metadata(self.protocol), member.assignment,
            )
            for member in self.members
        ]  # fmt: skip

    # Checks.

    def _check_joining(self, told: Joining) -> Code:
        if not SESSION_MS_MIN <= told.session_timeout_ms <= SESSION_MS_MAX:
            return Code.INVALID_SESSION_TIMEOUT
        if sum(len(metadata) for _, metadata in told.protocols) > MEMBER_BYTES_MAX:
            return Code.POLICY_VIOLATION
        if not self.members.fits(told) or (self.members and told.protocol_type != self.protocol_type):
            return Code.INCONSISTENT_GROUP_PROTOCOL
        if told.member == "":
            full = len(self.members) + len(self._promised) >= self.members_max
            comes_back = self.members.static(told.instance) is not None
            return Code.GROUP_MAX_SIZE_REACHED if full and not comes_back else Code.NONE
        promised = told.member in self._promised and told.instance is None
        return Code.NONE if promised else self.members.check(told.member, told.instance)

    def _check_syncing(self, told: Syncing) -> Code:
        error = self.members.check(told.member, told.instance)
        if error:
            return error
        if told.generation != self.generation:
            return Code.ILLEGAL_GENERATION
        if told.protocol_type not in (None, self.protocol_type) or told.protocol not in (None, self.protocol):
            return Code.INCONSISTENT_GROUP_PROTOCOL
        return Code.REBALANCE_IN_PROGRESS if self.state == PREPARING else Code.NONE

    # Joining.

    def _join_new(self, told: Joining, ticket: Ticket[Joined]) -> None:
        before = self.members.static(told.instance)
        if before is not None:
            self._take_place(self.members[before], told, ticket)
        elif told.instance is None and told.id_first:
            self._promised[told.new_member] = self._now_ms + told.session_timeout_ms
            ticket.give(Joined(Code.MEMBER_ID_REQUIRED, told.new_member))
        else:
            self._add(told.new_member, told, ticket)

    def _add(self, identity: str, told: Joining, ticket: Ticket[Joined]) -> None:
        member = Member(identity, told)
        member.deadline_ms = self._now_ms + NEW_MEMBER_MS
        if not self.members:
            self.protocol_type = told.protocol_type
        self._gather(told)
        self.members.add(member)
        if self.leader is None:
            self.leader = identity
        self._meet(member, ticket)

    def _gather(self, told: Joining) -> None:
        """Wait for more members, if this is the first one, or one that has come while the group waits."""
        if self.state == EMPTY:
            self._gather_limit_ms = self._now_ms + told.rebalance_timeout_ms
        elif self._gather_until_ms < 0:
            return
        self._gather_until_ms = min(self._now_ms + told.gather_ms, self._gather_limit_ms)

    def _join_again(self, member: Member, told: Joining, ticket: Ticket[Joined]) -> None:
        same = member.told.protocols == told.protocols
        if same and (self.state == COMPLETING or (self.state == STABLE and member.identity != self.leader)):
            self._renew(member)
            ticket.give(self._joined(member))  # It has missed the answer, most likely.
            return
        self.members.update(member, told)
        self._meet(member, ticket)

    def _take_place(self, member: Member, told: Joining, ticket: Ticket[Joined]) -> None:
        """A static member has come anew: the process before it is fenced, and its assignment stays."""
        before, led = member.identity, self.leader
        self._dismiss(before, Code.FENCED_INSTANCE_ID)
        self.members.remove(before)
        member.identity = told.new_member
        self.members.add(member)
        if before in self._unsynced:
            self._unsynced.remove(before)
            self._unsynced.add(told.new_member)
        if led == before:
            self.leader = told.new_member
        self.members.update(member, told)
        if self.state == STABLE and self.members.elected() == self.protocol:
            self._renew(member)
            ticket.give(self._joined(member, None if told.can_skip else led))
        else:
            self._meet(member, ticket)

    def _joined(self, member: Member, led: str | None = None) -> Joined:
        """The present generation, as the member hears of it.

        ``led``: who the leader was before a static leader came anew that cannot be told to
        skip the assignment.  It takes itself for a follower then, and assigns nothing.
        """
        leads = member.identity == self.leader and led is None
        return Joined(
            Code.NONE,
            member.identity,
            self.generation,
            self.protocol_type,
            self.protocol,
            led or self.leader or "",
            self.members.lines(self.protocol) if leads else (),
            skip_assignment=leads and self.state == STABLE,
        )

    # Meetings.

    def _meet(self, member: Member, ticket: Ticket[Joined]) -> None:
        _replace(self._joining, member.identity, ticket, Joined(Code.REBALANCE_IN_PROGRESS, member.identity))
        self._prepare()

    def _prepare(self) -> None:
        """Begin a round, if none has begun; and end its first meeting, if all are there."""
        if self.state != PREPARING:
            for ticket in self._syncing.values():
                ticket.give(Synced(Code.REBALANCE_IN_PROGRESS))
            self._syncing.clear()
            self._unsynced.clear()
            self.state = PREPARING
            self._meeting_ends_ms = self._now_ms + self._patience_ms()
        gathering = bool(self.members) and self._now_ms < self._gather_until_ms
        if not self._promised and len(self._joining) == len(self.members) and not gathering:
            self._begin_generation()

    def _patience_ms(self) -> int:
        return max([0, *(member.told.rebalance_timeout_ms for member in self.members)])

    def _go_on(self, *, changed: bool = True) -> None:
        """Somebody is gone: the others meet anew, or need not wait any longer."""
        if self.state == PREPARING or (changed and self.state != EMPTY):
            self._prepare()

    def _end_meeting(self) -> None:
        if self.state == PREPARING:
            self._begin_generation()
            return
        for member in list(self._unsynced):
            self._remove(member, Code.UNKNOWN_MEMBER_ID)
        self._prepare()

    def _begin_generation(self) -> None:
        """All who are there are in; static members stay in until their session ends, there or not."""
        self._gather_until_ms = -1
        absent = [m for m in self.members if m.identity not in self._joining and m.instance is None]
        for member in absent:
            self._remove(member.identity, Code.UNKNOWN_MEMBER_ID)
        if self.members and not self._joining:
            self._meeting_ends_ms = self._now_ms + max(self._patience_ms(), 1)
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
        self._meeting_ends_ms = self._now_ms + self._patience_ms()
        joining, self._joining = self._joining, {}
        for member in self.members:
            member.is_new = False
            self._renew(member)
        for identity, ticket in joining.items():
            ticket.give(self._joined(self.members[identity]))

    def _disband(self) -> None:
        assert not self._joining, "I1"
        assert self.leader is None, "I3"
        self.state = EMPTY
        self.protocol = None
        self._meeting_ends_ms = -1

    def _answer_syncs(self) -> None:
        for identity, ticket in self._syncing.items():
            member = self.members[identity]
            self._renew(member)
            ticket.give(Synced(Code.NONE, self.protocol_type, self.protocol, member.assignment))
        self._syncing.clear()

    # Sessions.

    def _renew(self, member: Member) -> None:
        if not member.is_new:
            member.deadline_ms = self._now_ms + member.told.session_timeout_ms

    def _deadline_ms(self, member: Member) -> int:
        """When its session ends; -1 while it waits in a meeting, where only its end ends that."""
        waits = member.identity in self._syncing or (member.identity in self._joining and not member.is_new)
        return -1 if waits else member.deadline_ms

    def _remove(self, identity: str, why: Code) -> None:
        self.members.remove(identity)
        self._dismiss(identity, why)
        self._unsynced.discard(identity)
        if self.leader == identity:
            self.leader = next(iter(self.members.ids()), None)

    def _dismiss(self, identity: str, why: Code) -> None:
        """Answer what the member waits for."""
        joining, syncing = self._joining.pop(identity, None), self._syncing.pop(identity, None)
        if joining is not None:
            joining.give(Joined(why, identity))
        if syncing is not None:
            syncing.give(Synced(why))


def _replace(tickets: dict[str, Ticket[T]], member: str, ticket: Ticket[T], instead: T) -> None:
    """Wait with this ticket; a call from before, whose connection is gone most likely, is over."""
    before = tickets.get(member)
    tickets[member] = ticket
    if before is not None:
        before.give(instead)
