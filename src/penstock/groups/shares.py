"""Membership of share groups (KIP-932): members, their epochs and deadlines, and their fetch sessions.

A share group is, on each topic, the queue group of its name.  Leases, attempts and dead letters are the
broker's; this is who has joined, and when what a member has acquired is given back:

    I1  a member is closed when it leaves or misses its deadline
    I2  the session of a member is released when it ends; the attempt counts if its connection was lost or
        the member missed its deadline, and not if the client closed it
    I3  a member is served to the owner that added it, and a session on the connection it began on

The caller subclasses ``ShareMember`` to release and close what a member holds.

All partitions of its topics are assigned to every member.  A member's epoch is its own: it grows when its
assignment changes.

Costs: ``tick`` and ``next_deadline_ms`` are O(members); all else is O(1) or O(members of the request).
"""

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from penstock.errors import Forbidden, Overloaded
from penstock.wire.kafka.codes import Code

MEMBERS_MAX: Final = 10_000  # Of all share groups together.
OPEN, CLOSE = 0, -1  # Epochs of a session, and of a member.
EPOCH_MAX: Final = 2**31 - 1  # The next one is 1.

Assignment = dict[bytes, int]  # The number of partitions, by topic id.


class ShareSession:
    """What a member fetches, on one connection."""

    def __init__(self, connection: object) -> None:
        self.connection = connection  # Its owner, by identity.
        self.epoch = OPEN  # Of the last request.
        self.partitions: dict[bytes, set[int]] = {}  # By topic id.

    @property
    def size(self) -> int:
        """How many partitions the session has."""
        return sum(map(len, self.partitions.values()))

    def add(self, topic_id: bytes, partition: int) -> None:
        self.partitions.setdefault(topic_id, set()).add(partition)

    def forget(self, topic_id: bytes, partitions: Iterable[int]) -> None:
        left = self.partitions.get(topic_id, set()).difference(partitions)
        if left:
            self.partitions[topic_id] = left
        else:
            self.partitions.pop(topic_id, None)


class ShareMember:
    """One member of one group."""

    def __init__(self, owner: object, group: str, identity: str) -> None:
        self.owner = owner  # The client that added it, by identity.
        self.group = group
        self.identity = identity
        self.client_id = ""
        self.client_host = ""
        self.rack: str | None = None
        self.epoch = 0  # 0: it has not joined.
        self.previous_epoch = 0  # The client may not have received the answer that ended it.
        self.topics: frozenset[str] = frozenset()
        self.assignment: Assignment = {}
        self.session: ShareSession | None = None
        self.deadline_ms = -1  # Of its next heartbeat; -1: there was none yet.

    def advance(self) -> None:
        self.previous_epoch = self.epoch
        self.epoch = following(self.epoch)

    def release(self, disconnected: bool) -> None:
        """Release what the session has acquired; the attempt counts if the connection was lost."""
        raise NotImplementedError

    def close(self, disconnected: bool) -> None:
        """Release everything and close; the attempt counts if the member was lost."""
        raise NotImplementedError


MemberT = TypeVar("MemberT", bound=ShareMember)


class ShareGroups(Generic[MemberT]):
    """The members of all share groups."""

    def __init__(self, make: Callable[[object, str, str], MemberT]) -> None:
        self.alarm_ms = -1  # The broker's: when it calls ``tick``.
        self._make = make  # Of an owner, a group and an identity.
        self._members: dict[tuple[str, str], MemberT] = {}

    def find(self, owner: object, group: str, identity: str) -> MemberT | None:
        """A member, for the client that added it."""
        found = self._members.get((group, identity))
        if found is not None and found.owner is not owner:
            raise Forbidden(
                who="this login", operation="be a member of", on=f"group {group}", role="consumer"
            )
        return found

    def find_or_add(self, owner: object, group: str, identity: str) -> MemberT:
        found = self.find(owner, group, identity)
        if found is None:
            if len(self._members) >= MEMBERS_MAX:
                raise Overloaded(what="members of share groups", limit=MEMBERS_MAX)
            found = self._members[group, identity] = self._make(owner, group, identity)
        return found

    def heartbeat(self, owner: object, group: str, identity: str, epoch: int) -> MemberT | Code:
        """The member that joins, stays or leaves by a heartbeat of that epoch; or an error code."""
        found = self.find(owner, group, identity)
        if epoch == OPEN:
            return found or self.find_or_add(owner, group, identity)
        if found is None or not found.epoch:
            return Code.UNKNOWN_MEMBER_ID
        if epoch == CLOSE:
            self.leave(found)
        elif epoch not in (found.epoch, found.previous_epoch):
            return Code.FENCED_MEMBER_EPOCH
        return found

    def leave(self, member: MemberT) -> None:
        """Leave the group; a session on another connection may still acknowledge what it has."""
        member.epoch = member.previous_epoch = 0
        if member.session is None:
            self.remove(member)

    def remove(self, member: MemberT, disconnected: bool = False) -> None:
        key = member.group, member.identity
        if self._members.get(key) is member:  # Otherwise another member has taken its place.
            del self._members[key]
        member.session = None
        member.close(disconnected)

    def groups(self) -> set[str]:
        """Those that have members, here at least."""
        return {group for group, _ in self._members}

    def members(self, group: str) -> list[MemberT]:
        """The members that have joined a group."""
        return [one for (name, _), one in sorted(self._members.items()) if name == group and one.epoch]

    def joined(self) -> list[MemberT]:
        """The members of all groups that have joined."""
        return [one for one in self._members.values() if one.epoch]

    # Time.

    def tick(self, now_ms: int) -> None:
        """Remove the members that have missed their deadline."""
        for member in [one for one in self._members.values() if 0 <= one.deadline_ms <= now_ms]:
            self.remove(member, disconnected=True)

    def next_deadline_ms(self) -> int | None:
        """When to call ``tick``; None if there is nothing to wait for."""
        return min((one.deadline_ms for one in self._members.values() if one.deadline_ms >= 0), default=None)

    # Sessions.

    def open_session(
        self, owner: object, group: str, identity: str, connection: object
    ) -> tuple[MemberT, ShareSession]:
        """A new session, which ends the member's old one."""
        found = self.find_or_add(owner, group, identity)
        if found.session is not None:
            found.release(disconnected=False)
        found.session = ShareSession(connection)
        return found, found.session

    def end_session(self, member: MemberT, disconnected: bool = False) -> None:
        member.session = None
        member.release(disconnected)
        if not member.epoch:
            self.remove(member)

    def connection_lost(self, connection: object, disconnected: bool = True) -> None:
        """End the sessions of a connection."""
        for member in list(self._members.values()):
            if member.session is not None and member.session.connection is connection:
                self.end_session(member, disconnected)

    def close(self) -> None:
        for member in list(self._members.values()):
            self.remove(member)

    def session_of(
        self, owner: object, group: str, identity: str, connection: object, epoch: int
    ) -> tuple[MemberT, ShareSession] | Code:
        """The session that a request continues or closes; or an error code."""
        found = self.find(owner, group, identity)
        if found is None or found.session is None or found.session.connection is not connection:
            return Code.SHARE_SESSION_NOT_FOUND
        session = found.session
        if epoch != CLOSE:
            if epoch != following(session.epoch):
                return Code.INVALID_SHARE_SESSION_EPOCH
            session.epoch = epoch
        return found, session


def following(epoch: int) -> int:
    return 1 if epoch == EPOCH_MAX else epoch + 1
