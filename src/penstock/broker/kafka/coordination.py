"""Coordination of Kafka groups: their members, and which commits are allowed.

    join, sync          wait for other members    ──> ClassicGroup (groups/classic.py), one for each group
    heartbeat, leave    are answered at once      ──'
    beat                the broker assigns        ──> ConsumerGroup (groups/consumers.py), KIP-848
    commit              is it a member, of this generation?  ──> OffsetCommits

A Kafka group spans topics.  Its members are kept here, in memory, while there are any; its committed
offsets are kept by the stream group of the same name on each topic, and outlive the members.  So
``group describe`` shows a Kafka group like any other.

A group name has one kind on a topic.  If it is a queue group, whose consumers lease single messages,
consumers that would read the same messages by position cannot join, and the other way round
(``Groups.ensure``).  Kafka reports mixed types as ``INCONSISTENT_GROUP_PROTOCOL``.

Generations also rise across restarts: groups start above every generation used before, so that a commit
from before the restart is never accepted as a current one.  They are reserved on disk in blocks.

Every group has one alarm, for its sessions and its rebalances.  Each waiting member
waits for its own response, so a member that joins wakes no other.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar
from uuid import UUID

from penstock.broker.kafka.matching import TOO_LONG, Matching
from penstock.broker.registry.registry import first_generation
from penstock.broker.state import Group, KafkaGroup, State
from penstock.broker.steps import Arrival, Steps
from penstock.broker.stream.commits import OffsetCommits, check_group_id, protocol_of
from penstock.broker.topic.subscribers import joins_for, readers
from penstock.config.broker import Kind
from penstock.errors import Closed, LimitReached
from penstock.groups.classic import ClassicGroup
from penstock.groups.commits import Commit
from penstock.groups.configs import GroupConfig, with_usual
from penstock.groups.consumers import HEARTBEAT_MS, SESSION_MS, ConsumerGroup
from penstock.groups.heartbeats import JOIN, ConsumerGroupState, HeartbeatResult, MemberHeartbeat, Topics
from penstock.groups.patterns import NOTHING_TRIED, Tried, problem_of
from penstock.groups.rebalance import (
    Committer,
    JoinRequest,
    JoinResult,
    KafkaGroupState,
    PendingResult,
    SyncRequest,
    SyncResult,
)
from penstock.groups.shares import ShareGroups, ShareMember
from penstock.wire.kafka.codes import Code

T = TypeVar("T")

ENDED_MAX: Final = 100_000  # Groups without members whose generation is remembered.
LOOK_MS: Final = 3600_000  # A waiter checks again after this time, even if it was not woken.


class Coordination:
    """The members of all Kafka groups."""

    def __init__(self, state: State, commits: OffsetCommits, matching: Matching) -> None:
        self._state = state
        self._matching = matching
        self._commits = commits
        self._floor = -1  # New groups begin above this generation; -1: none has begun yet.
        self._latest = 0  # Of all groups.
        self._ended: dict[str, int] = {}  # The last generations of groups without members.
        self._known: Topics = {}  # The topics as of the stamp.
        self._stamp = (-1, -1)

    # Requests of members.

    def join(self, name: str, request: JoinRequest) -> Steps[JoinResult]:
        """Join the next generation of a group; waits until all members have joined."""
        wanted = joins_for(request)
        if self._is_lent(name, lambda topic: topic in wanted):
            return JoinResult(Code.INCONSISTENT_GROUP_PROTOCOL, request.member)
        group = self._open(name, ClassicGroup)
        if not isinstance(group.machine, ClassicGroup):
            return JoinResult(Code.INCONSISTENT_GROUP_PROTOCOL, request.member)
        request = replace(request, new_member=f"{request.instance or request.client_id}-{self._new_id()}")
        pending = group.machine.join(request, self._now())
        self._look_again(group)
        return (yield from self._answer(pending))

    def sync(self, name: str, request: SyncRequest) -> Steps[SyncResult]:
        """Get the assignment; waits for the leader to send it."""
        group = self._state.kafka_groups.get(name)
        if group is None or not isinstance(group.machine, ClassicGroup):
            return SyncResult(Code.UNKNOWN_MEMBER_ID)
        pending = group.machine.sync(request, self._now())
        self._look_again(group)
        return (yield from self._answer(pending))

    def heartbeat(self, name: str, member: str, instance: str | None, generation: int) -> Code:
        if not name:
            return Code.INVALID_GROUP_ID
        group = self._state.kafka_groups.get(name)
        if group is None or not isinstance(group.machine, ClassicGroup):
            return Code.UNKNOWN_MEMBER_ID
        return group.machine.heartbeat(member, instance, generation, self._now())

    def consumer_heartbeat(self, name: str, request: MemberHeartbeat) -> Steps[HeartbeatResult]:
        """Join, stay in or leave a KIP-848 group; waits only while a pattern is matched."""
        work = self._unmatched(name, request)
        tried = (yield from self._matching.match(work)) if work else NOTHING_TRIED
        if tried is None:
            return HeartbeatResult(Code.INVALID_REGULAR_EXPRESSION, request.member, why=TOO_LONG)
        return self._heartbeat(name, request, tried)

    def _unmatched(self, name: str, request: MemberHeartbeat) -> dict[str, list[str]]:
        """The topic names that have to be matched for a heartbeat, by pattern."""
        group = self._state.kafka_groups.get(name)
        if group is not None and isinstance(group.machine, ConsumerGroup):
            return group.machine.unmatched(request.pattern, self._topics())
        if not request.pattern or problem_of(request.pattern):
            return {}
        return {request.pattern: list(self._topics())}

    def _heartbeat(self, name: str, request: MemberHeartbeat, tried: Tried) -> HeartbeatResult:
        if request.epoch == JOIN and not request.member:
            request = replace(request, member=str(self._new_id()))  # An old client without one.
        if request.epoch != JOIN and name not in self._state.kafka_groups:
            return HeartbeatResult(Code.UNKNOWN_MEMBER_ID, request.member, why="join again")
        if self._heartbeat_reads_lent(name, request, tried):
            why = "there is a queue group, or a share group, of that name; take another"
            return HeartbeatResult(Code.INCONSISTENT_GROUP_PROTOCOL, request.member, why=why)
        group = self._open(name, ConsumerGroup)
        if not isinstance(group.machine, ConsumerGroup):
            why = "the group has members of the classic protocol"
            return HeartbeatResult(Code.INCONSISTENT_GROUP_PROTOCOL, request.member, why=why)
        said = self._state.group_configs.get(name)
        group.machine.session_ms = (said and said.consumer_session_ms) or SESSION_MS
        group.machine.heartbeat_ms = (said and said.consumer_heartbeat_ms) or HEARTBEAT_MS
        answer = group.machine.heartbeat(request, self._topics(), self._now(), tried)
        self._look_again(group)
        return answer

    def leave(self, name: str, leavers: list[tuple[str, str | None]]) -> list[Code]:
        """Remove members, each given by its id or, if static, by its name."""
        group = self._state.kafka_groups.get(name)
        if group is None:
            return [Code.UNKNOWN_MEMBER_ID] * len(leavers)
        answers = [group.machine.leave(member, instance, self._now()) for member, instance in leavers]
        self._look_again(group)
        return answers

    def commit(self, topic: str, name: str, commits: Mapping[int, Commit], by: Committer) -> Steps[Code]:
        """Commit offsets of the group on a topic, after checking the member."""
        error = self.check(name, by)
        if not error:
            yield from self._commits.commit(topic, name, commits)
        return error

    def check(self, name: str, by: Committer) -> Code:
        """Check that a client may commit for a group now."""
        group = self._state.kafka_groups.get(name)
        if group is None:
            return Code.ILLEGAL_GENERATION if by.generation >= 0 else Code.NONE
        return group.machine.check_commit(by, self._now())

    def protocol(self, name: str) -> str:
        """The protocol that the members of a group have agreed on; empty if there are none."""
        group = self._state.kafka_groups.get(name)
        return "" if group is None else group.machine.protocol_type or ""

    def check_reader(self, name: str, member: str, epoch: int) -> Code:
        """Check that the client that fetches offsets is a member at that epoch."""
        group = self._state.kafka_groups.get(name)
        if group is None:
            return Code.UNKNOWN_MEMBER_ID
        if isinstance(group.machine, ClassicGroup):
            return Code.NONE  # Its members do not report it.
        return group.machine.check_commit(Committer(member=member, generation=epoch), self._now())

    # Groups of another kind.

    def _is_lent(self, name: str, wanted: Callable[[str], bool]) -> bool:
        """Whether one of the wanted topics has a queue group of that name.

        The first member is also refused while that group is active on other topics: a Kafka share group has
        one name for all its topics.
        """
        if any(wanted(topic) for topic in self.topics(name, "queue")):
            return True
        return name not in self._state.kafka_groups and self._is_at_work(name)

    def _heartbeat_reads_lent(self, name: str, request: MemberHeartbeat, tried: Tried) -> bool:
        """``_is_lent`` for the topics of a heartbeat, if it has any."""
        if request.topics is None and request.pattern is None:
            return False
        named, matches = request.topics or frozenset(), self._matches(name, request.pattern, tried)
        return self._is_lent(name, lambda topic: topic in named or matches(topic))

    def _matches(self, name: str, pattern: str | None, tried: Tried) -> Callable[[str], bool]:
        """Matches topics with a heartbeat's pattern; usually they were matched before."""
        if not pattern or problem_of(pattern):  # The latter is refused by the group.
            return lambda _: False
        group = self._state.kafka_groups.get(name)
        known = group.machine.matched(pattern) if group and isinstance(group.machine, ConsumerGroup) else None
        if known is not None:
            return frozenset(known).__contains__
        return lambda topic: tried.matches(pattern, topic)

    def _is_at_work(self, name: str) -> bool:
        return any(self._state.topics[topic].groups[name].consumers for topic in self.topics(name, "queue"))

    # Queries of operators.

    def groups(self) -> list[KafkaGroupState]:
        """All groups, also those without members that only have committed offsets."""
        placed: dict[str, list[Group]] = {name: [] for name in self._state.kafka_groups}
        for topic in self._state.topics.values():
            for group in topic.groups.values():
                if not group.name.startswith("__"):
                    placed.setdefault(group.name, []).append(group)
        found = [self._describe(name, placed[name]) for name in sorted(placed)]
        return [state for state in found if state is not None]

    def describe(self, name: str) -> KafkaGroupState | None:
        """One group; None if there is none of that name."""
        return self._describe(
            name, [topic.groups[name] for topic in self._state.topics.values() if name in topic.groups]
        )

    def _describe(self, name: str, groups: list[Group]) -> KafkaGroupState | None:
        """Describe a group, given the groups of its name on all topics."""
        group = self._state.kafka_groups.get(name)
        if group is None:
            return _memberless(name, groups)
        machine = group.machine
        if isinstance(machine, ConsumerGroup):
            return KafkaGroupState(name, "consumer", machine.state, machine.protocol_type, machine.assignor)
        protocol_type, protocol = machine.protocol_type or "", machine.protocol or ""
        members = tuple(machine.describe())
        return KafkaGroupState(name, "classic", machine.state, protocol_type, protocol, members)

    def check_share(self, name: str) -> Code:
        """Check that a group of that name may be a share group."""
        check_group_id(name)
        other = name in self._state.kafka_groups or self.topics(name)
        return Code.INCONSISTENT_GROUP_PROTOCOL if other else Code.NONE

    def consumers(self, name: str) -> ConsumerGroupState | None:
        """A KIP-848 group with its members; None if there is none."""
        group = self._state.kafka_groups.get(name)
        if group is None or not isinstance(group.machine, ConsumerGroup):
            return None
        machine = group.machine
        return ConsumerGroupState(
            group=name,
            state=machine.state,
            epoch=machine.epoch,
            assignor=machine.assignor,
            members=tuple(machine.describe()),
        )

    def topics(self, name: str, kind: Kind = "stream") -> list[str]:
        """The topics on which the group has, or may have, committed offsets; or is a queue group."""
        return [
            topic.name
            for topic in self._state.topics.values()
            if name in topic.groups and topic.groups[name].settings.kind == kind
        ]

    def check_delete(self, name: str, state: KafkaGroupState | None) -> Code:
        """Whether a group in this state may be deleted: it exists, and has no members."""
        if name in self._state.kafka_groups:
            return Code.NON_EMPTY_GROUP
        if state is None:
            return Code.GROUP_ID_NOT_FOUND
        return Code.NON_EMPTY_GROUP if state.kind == "share" and state.state != "Empty" else Code.NONE

    def forget(self, topic: str, name: str, numbers: list[int]) -> Steps[Code]:
        """Delete the group's committed offsets on partitions of a topic that no member reads."""
        group = self._state.kafka_groups.get(name)
        if group is not None and topic in readers(group):
            return Code.GROUP_SUBSCRIBED_TO_TOPIC
        if topic in self.topics(name):
            yield from self._commits.forget(topic, name, numbers)
        return Code.NONE

    def hand_over(self) -> None:
        """Forget the groups that this node no longer coordinates; their members rejoin elsewhere.

        Also those that it has lost and regained: their members have joined another coordinator.
        """
        for name, group in list(self._state.kafka_groups.items()):
            if group.epoch != self._state.registry.group_epoch(name):
                del self._state.kafka_groups[name]
                group.machine.dismiss(Code.NOT_COORDINATOR)

    # Time.

    def keep_share_member(self, groups: ShareGroups[Any], member: ShareMember) -> None:
        """Give a member of a share group time until its next heartbeat."""
        said = self._state.group_configs.get(member.group, GroupConfig())
        session_ms = with_usual(said, self._state.config.group).share_session_ms
        member.deadline_ms = self._now() + session_ms
        self._state.alarms.set(groups, member.deadline_ms)

    def look_at_shares(self, groups: ShareGroups[Any]) -> None:
        """Remove the members of share groups that were silent for too long."""
        groups.tick(self._now())
        deadline_ms = groups.next_deadline_ms()
        if deadline_ms is not None:
            self._state.alarms.set(groups, deadline_ms)

    def look(self, group: KafkaGroup) -> None:
        """The alarm of a group: a session has expired, or a rebalance has to end."""
        if self._state.kafka_groups.get(group.name) is group:
            group.machine.tick(self._now())
            self._look_again(group)

    def _now(self) -> int:
        return self._state.clock.steady_ms()

    def _new_id(self) -> UUID:
        return UUID(int=self._state.random.getrandbits(128), version=4)

    def _topics(self) -> Topics:
        """Id and number of partitions of all topics; another object whenever they have changed."""
        stamp = (self._state.versions, len(self._state.topics))
        if stamp != self._stamp:
            self._stamp = stamp
            self._known = {
                topic.name: (topic.id, len(topic.partitions))
                for topic in self._state.topics.values()
                if not topic.name.startswith("__")
            }
        return self._known

    def _open(self, name: str, kind: type[ClassicGroup] | type[ConsumerGroup]) -> KafkaGroup:
        group = self._state.kafka_groups.get(name)
        if group is None:
            check_group_id(name)
            config = self._state.config
            if len(self._state.kafka_groups) >= config.groups_max:
                raise LimitReached(what="groups with members", limit=config.groups_max, setting="groups_max")
            begun = kind(self._generation_before(name))
            begun.members_max = config.group_members_max
            epoch = self._state.registry.group_epoch(name)
            group = self._state.kafka_groups[name] = KafkaGroup(name, begun, epoch)
        return group

    def _generation_before(self, name: str) -> int:
        if self._floor < 0:
            self._floor = self._latest = self._state.registry.generations
        self._state.registry.reserve_generations(self._latest)
        if len(self._ended) > ENDED_MAX:
            self._floor = self._latest
            self._ended.clear()
        first = first_generation(self._state.registry.group_epoch(name))
        return max(self._floor, self._ended.pop(name, 0), first)

    def _note_generation(self, group: KafkaGroup) -> None:
        """Note the generation of a group; generations are reserved in advance."""
        self._latest = max(self._latest, group.machine.generation)
        self._state.registry.reserve_generations(self._latest)

    def _look_again(self, group: KafkaGroup) -> None:
        """Set the alarm of a group; one without members is forgotten."""
        self._note_generation(group)
        if group.machine.idle:
            self._state.kafka_groups.pop(group.name, None)
            self._ended[group.name] = group.machine.generation
        else:
            self._state.alarms.set(group, group.machine.next_deadline_ms())

    def _answer(self, pending: PendingResult[T]) -> Steps[T]:
        self._state.awaited.add(pending)
        try:
            while pending.answer is None:
                if self._state.closed:
                    raise Closed(what="broker")
                yield Arrival(pending, self._now() + LOOK_MS)
        finally:
            self._state.awaited.discard(pending)
        return pending.answer


def _memberless(name: str, groups: list[Group]) -> KafkaGroupState | None:
    """A group without Kafka members, described by its topics."""
    streams = [group for group in groups if group.settings.kind == "stream"]
    if streams:
        return KafkaGroupState(name, "classic", "Empty", next(filter(None, map(protocol_of, streams)), ""))
    if not groups:
        return None
    busy = any(group.consumers for group in groups)
    return KafkaGroupState(name, "share", "Stable" if busy else "Empty", "share")
