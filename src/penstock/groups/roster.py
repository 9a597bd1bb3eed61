"""The members of a classic group, by id and by the name of static members, and the protocol they share.

A protocol is a name that only the members interpret (usually an assignor).  There is
always at least one that all members support: a member without it cannot join.

Cost: O(protocols of the member) for a change, O(members) for an election.
"""

from collections import Counter
from collections.abc import Iterator

from penstock.groups.rebalance import JoinRequest, MemberMetadata
from penstock.wire.kafka.codes import Code


class ClassicMember:
    __slots__ = ("assignment", "deadline_ms", "identity", "instance", "is_new", "request")

    def __init__(self, identity: str, request: JoinRequest) -> None:
        self.identity = identity
        self.instance = request.instance
        self.request = request  # Its last join request.
        self.assignment = b""
        self.is_new = True  # It has not heard of a generation yet.
        self.deadline_ms = 0  # It is put out then, unless it is heard from.  Means nothing while it waits.

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for one of its protocols."""
        return dict(self.request.protocols).get(protocol or "", b"")


class Roster:
    """The members of one group, in the order in which they came."""

    def __init__(self) -> None:
        self._members: dict[str, ClassicMember] = {}
        self._instances: dict[str, str] = {}  # Static members: the id, by name.
        self._support: Counter[str] = Counter()  # How many members know a protocol.

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[ClassicMember]:
        return iter(self._members.values())

    def __contains__(self, identity: str) -> bool:
        return identity in self._members

    def __getitem__(self, identity: str) -> ClassicMember:
        return self._members[identity]

    def ids(self) -> list[str]:
        return list(self._members)

    def static(self, instance: str | None) -> str | None:
        """The id of the static member of that name, if there is one."""
        return None if instance is None else self._instances.get(instance)

    def check(self, identity: str, instance: str | None) -> Code:
        """Check that the caller is the member that it claims to be."""
        known = self.static(instance)
        if known is not None and known != identity:
            return Code.FENCED_INSTANCE_ID
        found = self._members.get(identity)
        if found is None or (instance is not None and found.instance != instance):
            return Code.UNKNOWN_MEMBER_ID
        return Code.NONE

    def add(self, member: ClassicMember) -> None:
        self._members[member.identity] = member
        self._support.update(_names(member.request))
        if member.instance is not None:
            self._instances[member.instance] = member.identity

    def remove(self, identity: str) -> ClassicMember:
        member = self._members.pop(identity)
        self._support.subtract(_names(member.request))
        if member.instance is not None:
            del self._instances[member.instance]
        return member

    def update(self, member: ClassicMember, request: JoinRequest) -> None:
        """Update a member that has joined again, perhaps with other protocols."""
        self._support.subtract(_names(member.request))
        self._support.update(_names(request))
        member.request = request

    # What they share.

    def fits(self, request: JoinRequest) -> bool:
        """Whether the member knows a protocol that all the others know."""
        if not request.protocol_type or not request.protocols:
            return False
        return not self._members or any(self._is_shared(name) for name, _ in request.protocols)

    def elected(self) -> str:
        """The protocol that all members know and most of them prefer."""
        votes = Counter(
            next(name for name, _ in member.request.protocols if self._is_shared(name)) for member in self
        )
        return votes.most_common(1)[0][0]

    def lines(self, protocol: str | None) -> tuple[MemberMetadata, ...]:
        """The members' metadata, for the leader."""
        return tuple(
            MemberMetadata(member.identity, member.instance, member.metadata(protocol)) for member in self
        )

    def _is_shared(self, protocol: str) -> bool:
        return self._support[protocol] == len(self._members)


def _names(request: JoinRequest) -> set[str]:
    return {name for name, _ in request.protocols}
