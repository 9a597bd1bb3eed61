"""The state that all nodes agree on, and the entries of the metadata log that change it.

``State.apply`` is deterministic and does no I/O: every node applies the same entries in the same order and
has the same state.  An entry that is not valid in the state at its position changes nothing (rule 10), so
that floors, epochs and owners are derived and never asserted.

    members      incarnations: their node, the floor of their WAL, and their tombstone once they are sealed
    topics       settings, and for each partition its epoch, its checkpoint and the history since then
    documents    keys, users, quotas, group settings and the like: text by name
    producers    the number of allocated producer ids
    draining     nodes that an operator keeps free of partitions
    coordinators which incarnation coordinates the Kafka groups of each hash, and since which entry
    left         the incarnation that turned the cluster back into a plain data directory: no node can join

The history of a partition is a list of ranges (incarnation, epoch, start, end): the commits of that
incarnation, in its WAL from ``start`` up to ``end``.  Only the last range may be open; its incarnation is
the owner. An epoch is the number of the entry that assigned the partition, so two owners never share one
(rule 11).

The favourite of a partition is the node that should own it: the one that an operator has assigned
(``Prefer``), otherwise the one chosen by rendezvous hashing; never a node that is being drained, unless
there is no other.  These entries move nothing: an owner sees that it is no longer the favourite, and hands
over (rule 20).

The format of the log: every node joins with the newest format that it understands, and the log uses the
newest one that all live nodes understand.  It never decreases: a node of an older release is then refused.
Entries and fields that format 1 does not have are proposed only if ``State.format`` allows them.

Invariants:

    M1  a partition has an owner if any member is alive
    M2  floor <= start of every range of a member, and floor <= its tombstone; a floor only rises
    M3  a sealed member owns nothing and never comes back

Cost: an entry that changes ranges looks at all of them (some 10 ms for 10,000 partitions).  A snapshot of
the state is its JSON.
"""

import hashlib
from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

Key: TypeAlias = tuple[str, int]  # A partition: topic and number.

PARTITIONS_MAX: Final = 10_000  # Of a topic.
FORMAT: Final = 2  # The newest one that this release understands; 2 added ``Leave``.
GROUPS: Final = "__groups"  # Kafka groups are coordinated as if they were partitions of this topic ...
GROUPS_PARTITIONS: Final = 50  # ... by the hash of their name.


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """One file of a checkpoint."""

    file: str  # Its name for the broker.
    identity: str  # Identity: equal for equal contents, so that an unchanged piece is not uploaded again.
    name: str  # Of the object.
    more: list[str] = []  # Further objects, if it is too large for one.

    @property
    def names(self) -> list[str]:
        return [self.name, *self.more]


class Range(msgspec.Struct, array_like=True):
    incarnation: str
    epoch: int
    start: int
    end: int | None = None
    clean: bool = False  # The owner had stopped before its range ended: a successor need not wait (rule 25).


class Assigned(msgspec.Struct):
    """A partition: its checkpoint, and the history since then."""

    epoch: int = 0
    base: list[Piece] = []
    history: list[Range] = []
    preferred: int | None = None  # The node that an operator has assigned.

    @property
    def owner(self) -> str | None:
        if self.history and self.history[-1].end is None:
            return self.history[-1].incarnation
        return None


class Member(msgspec.Struct):
    node: int
    address: str
    floor: int = 0
    tombstone: int | None = None
    forgotten: bool = False  # An operator has removed the node.
    format: int = 1  # That it understands.


class Topic(msgspec.Struct):
    id: str
    settings: str
    version: int  # The number of the entry that changed it last.
    partitions: list[Assigned] = []


class Document(msgspec.Struct):
    text: str
    version: int


class Coordinating(msgspec.Struct, array_like=True):
    """The coordinator of some of the Kafka groups."""

    incarnation: str | None = None
    epoch: int = 0  # The entry that appointed it: two coordinators of a group never share one (rule 11).


# The entries (rule 11).


class Join(msgspec.Struct, frozen=True, tag="join"):
    """A new incarnation; the first action of a process (rule 4)."""

    incarnation: str
    node: int
    address: str = ""
    format: int = 1  # That it understands.
    leaving: bool = False  # Only to turn the cluster into a plain data directory (format 2).


class Fence(msgspec.Struct, frozen=True, tag="fence"):
    """Ends an incarnation, whose tombstone is at ``end``; its partitions get other owners (rule 15)."""

    incarnation: str
    end: int
    clean: bool = False


class Transfer(msgspec.Struct, frozen=True, array_like=True):
    topic: str
    partition: int
    epoch: int
    to: str


class Move(msgspec.Struct, frozen=True, tag="move"):
    """An owner hands over partitions; all its commits to them are below ``end`` (rule 20)."""

    incarnation: str
    end: int
    transfers: list[Transfer]


class Covered(msgspec.Struct, frozen=True, array_like=True):
    topic: str
    partition: int
    epoch: int
    start: int  # The first WAL entry that the checkpoint does not cover.
    base: list[Piece]


class Checkpoint(msgspec.Struct, frozen=True, tag="checkpoint"):
    """Partitions can be loaded from objects; WAL entries below ``confirmed`` are confirmed (rule 26)."""

    incarnation: str
    confirmed: int
    covered: list[Covered]


class PutTopic(msgspec.Struct, frozen=True, tag="topic"):
    """Create a topic (``before`` 0), or change the one that has the version ``before``."""

    name: str
    id: str
    partitions: int
    settings: str
    before: int = 0


class DropTopic(msgspec.Struct, frozen=True, tag="drop"):
    name: str
    before: int


class PutDocument(msgspec.Struct, frozen=True, tag="document"):
    """Create (``before`` 0), change or remove (``text`` None) a document."""

    name: str
    text: str | None
    before: int = 0


class TakeProducerIds(msgspec.Struct, frozen=True, tag="producers"):
    """Reserve a block of producer ids; it begins at the number of those allocated before."""

    incarnation: str
    count: int


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    """Keep partitions away from a node, or (``on`` False) allow them again."""

    node: int
    on: bool = True


class Preference(msgspec.Struct, frozen=True, array_like=True):
    topic: str
    partition: int
    epoch: int
    node: int


class Prefer(msgspec.Struct, frozen=True, tag="prefer"):
    """Assign partitions to nodes for an operator, given their current owners."""

    preferences: list[Preference]


class Forget(msgspec.Struct, frozen=True, tag="forget"):
    """Remove a node that has stopped permanently."""

    node: int


class Leave(msgspec.Struct, frozen=True, tag="leave"):
    """End the cluster: the only incarnation has written everything to a plain directory (format 2)."""

    incarnation: str


Change: TypeAlias = (
    Join | Fence | Move | Checkpoint | PutTopic | DropTopic | PutDocument | TakeProducerIds
    | Drain | Prefer | Forget | Leave
)  # fmt: skip


class State(msgspec.Struct):
    next: int = 1  # The number of the next entry; the first one is 1, so that 0 is no version and no epoch.
    members: dict[str, Member] = {}
    topics: dict[str, Topic] = {}
    documents: dict[str, Document] = {}
    producers: int = 0
    coordinators: list[Coordinating] = []  # By partition of ``GROUPS``; empty before the first join.
    draining: list[int] = []
    format: int = 1  # The format that entries may use.
    left: str = ""  # The incarnation that ended the cluster.
    placement: int = 0  # The last entry by which an operator changed assignments.

    # Queries.

    def alive(self) -> list[str]:
        return sorted(name for name, member in self.members.items() if member.tombstone is None)

    def is_alive(self, incarnation: str) -> bool:
        member = self.members.get(incarnation)
        return member is not None and member.tombstone is None

    def partition(self, key: Key) -> Assigned | None:
        topic = self.topics.get(key[0])
        return topic.partitions[key[1]] if topic is not None and key[1] < len(topic.partitions) else None

    def owns(self, incarnation: str, key: Key, epoch: int) -> bool:
        found = self.partition(key)
        return found is not None and found.owner == incarnation and found.epoch == epoch

    def owner_of(self, key: Key) -> tuple[int, int]:
        """The number of the node that owns a partition, -1 if none does, and the epoch of its ownership."""
        found = self.partition(key)
        if found is None:
            return -1, 0
        return (-1 if found.owner is None else self.members[found.owner].node), found.epoch

    def nodes(self) -> dict[int, bool]:
        """The known nodes, and whether they are alive."""
        found: dict[int, bool] = {}
        for member in self.members.values():
            if not member.forgotten:
                found[member.node] = found.get(member.node, False) or member.tombstone is None
        return dict(sorted(found.items()))

    def partitions(self) -> Iterator[tuple[Key, Assigned]]:
        for name, topic in self.topics.items():
            for number, assigned in enumerate(topic.partitions):
                yield (name, number), assigned

    def favourite(self, key: Key) -> str | None:
        """The node that should own a partition: assigned by an operator, or by rendezvous hashing of node
        numbers.

        None if no node is alive.
        """
        alive = self.alive()
        fit = [name for name in alive if self.members[name].node not in self.draining] or alive
        assigned = self.partition(key)
        preferred = None if assigned is None else assigned.preferred
        text = f"{key[0]}/{key[1]}/"
        return max(
            [name for name in fit if self.members[name].node == preferred] or fit,
            key=lambda name: hashlib.sha256(f"{text}{self.members[name].node}".encode()).digest(),
            default=None,
        )

    # Changes.

    def apply(self, change: Change) -> bool:  # noqa: PLR0911 - one for each kind of entry
        """Apply the next entry; False if it is not valid here, and has changed nothing (rule 10)."""
        number = self.next
        self.next += 1
        match change:
            case Join():
                return self._join(change, number)
            case Fence():
                return self._fence(change, number)
            case Move():
                return self._move(change, number)
            case Checkpoint():
                return self._checkpoint(change)
            case PutTopic():
                return self._put_topic(change, number)
            case DropTopic():
                return self._drop_topic(change)
            case PutDocument():
                return self._put_document(change, number)
            case TakeProducerIds():
                self.producers += change.count
                return True
            case _:
                return self._place(change, number)

    def _join(self, join: Join, number: int) -> bool:
        ended = bool(self.left) and not join.leaving
        if join.incarnation in self.members or join.format < self.format or ended:
            return False
        self.members[join.incarnation] = Member(join.node, join.address, format=join.format)
        self._coordinate(number)
        self._raise_format()
        for key, assigned in self.partitions():
            if assigned.owner is None:
                self._assign(key, assigned, number)
        return True

    def _raise_format(self) -> None:
        known = [member.format for member in self.members.values() if member.tombstone is None]
        self.format = max(self.format, min(known, default=self.format))

    def _fence(self, fence: Fence, number: int) -> bool:
        # A tombstone below the floor has a name that was deleted before, and proves nothing (rule 15).
        if not self.is_alive(fence.incarnation) or fence.end < self.members[fence.incarnation].floor:
            return False
        self.members[fence.incarnation].tombstone = fence.end
        self._coordinate(number)
        self._raise_format()
        for key, assigned in self.partitions():
            if assigned.owner == fence.incarnation:
                self._close(assigned, fence.end, fence.clean)
                self._assign(key, assigned, number)
        self._raise_floors()
        return True

    def _move(self, move: Move, number: int) -> bool:
        owned = all(self.owns(move.incarnation, (t.topic, t.partition), t.epoch) for t in move.transfers)
        if not owned or not all(self.is_alive(t.to) for t in move.transfers):
            return False
        for transfer in move.transfers:
            assigned = self.topics[transfer.topic].partitions[transfer.partition]
            self._close(assigned, move.end, clean=True)
            self._assign((transfer.topic, transfer.partition), assigned, number, transfer.to)
        self._raise_floors()
        return True

    def _checkpoint(self, checkpoint: Checkpoint) -> bool:
        incarnation = checkpoint.incarnation
        for each in checkpoint.covered:
            owned = self.owns(incarnation, (each.topic, each.partition), each.epoch)
            if not owned or each.start > checkpoint.confirmed:
                return False
        for each in checkpoint.covered:
            assigned = self.topics[each.topic].partitions[each.partition]
            assigned.base = each.base
            assigned.history = [Range(incarnation, each.epoch, each.start)]
        self._raise_floors(incarnation, checkpoint.confirmed)
        return True

    def _put_topic(self, put: PutTopic, number: int) -> bool:
        topic = self.topics.get(put.name)
        if (topic.version if topic is not None else 0) != put.before or put.partitions > PARTITIONS_MAX:
            return False
        if topic is None:
            topic = self.topics[put.name] = Topic(put.id, put.settings, number)
        elif topic.id != put.id or put.partitions < len(topic.partitions):
            return False  # A later topic of that name, or a change that would remove partitions.
        topic.settings, topic.version = put.settings, number
        for partition in range(len(topic.partitions), put.partitions):
            assigned = Assigned()
            topic.partitions.append(assigned)
            self._assign((put.name, partition), assigned, number)
        return True

    def _drop_topic(self, drop: DropTopic) -> bool:
        topic = self.topics.get(drop.name)
        if topic is None or topic.version != drop.before:
            return False
        del self.topics[drop.name]
        self._raise_floors()
        return True

    def _put_document(self, put: PutDocument, number: int) -> bool:
        document = self.documents.get(put.name)
        if (document.version if document is not None else 0) != put.before:
            return False
        if put.text is not None:
            self.documents[put.name] = Document(put.text, number)
        else:
            self.documents.pop(put.name, None)
        return True

    # Operators.

    def _place(self, change: Drain | Prefer | Forget | Leave, number: int) -> bool:
        match change:
            case Drain():
                return self._drain(change, number)
            case Prefer():
                return self._prefer(change, number)
            case Forget():
                return self._forget(change)
            case Leave():
                return self._leave(change)

    def _drain(self, drain: Drain, number: int) -> bool:
        if drain.node not in self.nodes() or (drain.node in self.draining) == drain.on:
            return False
        if drain.on:
            self.draining.append(drain.node)
        else:
            self.draining.remove(drain.node)
        self.placement = number
        self._coordinate(number)
        return True

    def _prefer(self, prefer: Prefer, number: int) -> bool:
        found = [(each, self.partition((each.topic, each.partition))) for each in prefer.preferences]
        if any(assigned is None or assigned.epoch != each.epoch for each, assigned in found):
            return False
        for each, assigned in found:
            assert assigned is not None
            assigned.preferred = each.node
        self.placement = number
        return True

    def _forget(self, forget: Forget) -> bool:
        if self.nodes().get(forget.node, True):
            return False  # It is unknown, or alive.
        for member in self.members.values():
            member.forgotten = member.forgotten or member.node == forget.node
        self.draining = [node for node in self.draining if node != forget.node]
        for _, assigned in self.partitions():
            if assigned.preferred == forget.node:
                assigned.preferred = None
        return True

    def _leave(self, leave: Leave) -> bool:
        if self.alive() != [leave.incarnation]:
            return False  # Another node has joined in the meantime.
        self.left = leave.incarnation
        return True

    # Coordinators.

    def _coordinate(self, number: int) -> None:
        """Reassign the coordinators of Kafka groups by rendezvous hashing, after members came or went."""
        self.coordinators = self.coordinators or [Coordinating() for _ in range(GROUPS_PARTITIONS)]
        for partition, each in enumerate(self.coordinators):
            chosen = self.favourite((GROUPS, partition))
            if chosen != each.incarnation:
                self.coordinators[partition] = Coordinating(chosen, number)

    # Ranges.

    def _assign(self, key: Key, assigned: Assigned, number: int, to: str | None = None) -> None:
        """Assign a partition to ``to``, or else by rendezvous hashing; to no node if none is alive."""
        owner = to or self.favourite(key)
        if owner is not None:
            assigned.epoch = number
            # The owner's slices of this epoch come later in its WAL than anything below its floor.
            assigned.history.append(Range(owner, number, self.members[owner].floor))

    @staticmethod
    def _close(assigned: Assigned, end: int, clean: bool) -> None:
        last = assigned.history[-1]
        last.end, last.clean = end, clean

    def _raise_floors(self, incarnation: str = "", confirmed: int = 0) -> None:
        """Raise the floors, below which WALs are never read again (rule 21) and which never pass a
        tombstone (M2).

        The floor of a live incarnation rises only with its checkpoints, up to what they had confirmed.
        """
        needed: dict[str, int] = {}
        for _, assigned in self.partitions():
            for each in assigned.history:
                needed[each.incarnation] = min(needed.get(each.incarnation, each.start), each.start)
        for name, member in self.members.items():
            limit = confirmed if name == incarnation else member.floor
            limit = member.tombstone if member.tombstone is not None else limit
            member.floor = max(member.floor, min(limit, needed.get(name, limit)))
