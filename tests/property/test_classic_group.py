"""Any order of processes that start, stop, stall and crash, and a group that never loses or doubles work.

The processes are clients as Kafka's are: each does one call at a time, and the
next one as its answer says.  What the group promises is checked from outside:
whoever works in the present generation has what its leader assigned, no
partition is given twice, and as soon as nobody stalls any longer all who are alive
are in one generation, within a few rounds.
"""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.groups.classic import ClassicGroup
from penstock.groups.rebalance import JoinRequest, JoinResult, PendingResult, SyncRequest, SyncResult
from penstock.wire.kafka.codes import Code

SESSION_MS = 1_000
REBALANCE_MS = 5_000
PARTITIONS = 6
PROCESSES = ("a", "b", "c", "d")


class Process:
    """One client: where it is in the protocol, and what it works on."""

    def __init__(self, name: str, static: bool) -> None:
        self.name = name
        self.instance = name if static else None
        self.member = ""
        self.generation = -1
        self.joining: PendingResult[JoinResult] | None = None
        self.syncing: PendingResult[SyncResult] | None = None
        self.joined: JoinResult | None = None  # It has heard of a generation, and not synced yet.
        self.assignment: bytes | None = None  # It works.
        self.fenced = False
        self.started = 0

    def step(self, group: ClassicGroup, now_ms: int, number: int) -> None:
        """Do the next thing, if it does not wait for an answer."""
        if self.fenced:
            return
        if self.joining is not None:
            self.hear_join()
        elif self.syncing is not None:
            self.hear_sync()
        elif self.joined is not None:
            self.sync(group, now_ms)
        elif self.assignment is not None:
            self.obey(group.heartbeat(self.member, self.instance, self.generation, now_ms))
        else:
            self.join(group, now_ms, number)

    def join(self, group: ClassicGroup, now_ms: int, number: int) -> None:
        told = JoinRequest(
            member=self.member,
            new_member=f"{self.name}-{number}",
            instance=self.instance,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocols=(("range", b""),),
            id_first=self.name != "a",  # An old client, among new ones.
            can_skip=self.name == "b",
            gather_ms=300 if self.name in "cd" else 0,  # Servers are restarted with another setting.
        )
        self.joining = group.join(told, now_ms)
        self.hear_join()

    def hear_join(self) -> None:
        assert self.joining is not None
        answer = self.joining.answer
        if answer is None:
            return
        self.joining = None
        if answer.error == Code.MEMBER_ID_REQUIRED:
            self.member = answer.member
        elif answer.error:
            self.obey(answer.error)
        else:
            self.member, self.generation, self.joined = answer.member, answer.generation, answer

    def sync(self, group: ClassicGroup, now_ms: int) -> None:
        assert self.joined is not None
        told = SyncRequest(member=self.member, instance=self.instance, generation=self.generation)
        if self.joined.leader == self.member and not self.joined.skip_assignment:
            told = replace(told, assignments=shared_out([line.member for line in self.joined.roster]))
        self.joined = None
        self.syncing = group.sync(told, now_ms)
        self.hear_sync()

    def hear_sync(self) -> None:
        assert self.syncing is not None
        answer = self.syncing.answer
        if answer is not None:
            self.syncing = None
            self.obey(answer.error)
            if not answer.error:
                self.assignment = answer.assignment

    def obey(self, error: Code) -> None:
        if not error:
            return
        self.assignment = None
        if error == Code.FENCED_INSTANCE_ID:
            self.fenced = True
        elif error != Code.REBALANCE_IN_PROGRESS:
            self.member, self.generation = "", -1


def shared_out(members: list[str]) -> tuple[tuple[str, bytes], ...]:
    shares: dict[str, list[int]] = {member: [] for member in members}
    for partition in range(PARTITIONS):
        shares[members[partition % len(members)]].append(partition)
    return tuple((member, bytes(share)) for member, share in shares.items())


class AnyOrderOfCalls(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.number = 0
        self.group = ClassicGroup()
        self.processes: dict[str, Process] = {}
        self.generation = 0

    @rule(name=st.sampled_from(PROCESSES), static=st.booleans())
    def start(self, name: str, static: bool) -> None:
        """A process starts; the one of that name before it is gone without a word."""
        self.processes[name] = Process(name, static)

    @rule(name=st.sampled_from(PROCESSES))
    def step(self, name: str) -> None:
        if name in self.processes:
            self.number += 1
            self.processes[name].step(self.group, self.now_ms, self.number)

    @rule(name=st.sampled_from(PROCESSES))
    def stop(self, name: str) -> None:
        process = self.processes.pop(name, None)
        if process is not None and process.member:
            self.group.leave(process.member, process.instance, self.now_ms)

    @rule(name=st.sampled_from(PROCESSES))
    def crash(self, name: str) -> None:
        self.processes.pop(name, None)

    @rule(name=st.sampled_from(PROCESSES))
    def reconnect(self, name: str) -> None:
        """The connection breaks: whatever it waits for it will not hear, and it asks again."""
        process = self.processes.get(name)
        if process is not None:
            process.joining = process.syncing = None

    @rule(step_ms=st.integers(0, SESSION_MS))
    def time_passes(self, step_ms: int) -> None:
        self.now_ms += step_ms
        self.group.tick(self.now_ms)

    @rule()
    def all_who_are_alive_get_together(self) -> None:
        for _ in range(80):  # Beyond the rebalance timeout, twice, and some steps.
            self.now_ms += SESSION_MS // 4
            self.group.tick(self.now_ms)
            for name in list(self.processes):
                self.step(name)
        alive = [process for process in self.processes.values() if not process.fenced]
        assert len(self.group.members) == len(alive)
        assert self.group.state == ("Stable" if alive else "Empty")
        assert {process.generation for process in alive} <= {self.group.generation}
        given = sorted(partition for process in alive for partition in process.assignment or b"")
        assert given == (list(range(PARTITIONS)) if alive else [])

    @invariant()
    def nothing_is_assigned_twice_in_a_generation(self) -> None:
        at_work = [
            process
            for process in self.processes.values()
            if process.assignment is not None and process.generation == self.group.generation
        ]
        given = [partition for process in at_work for partition in process.assignment or b""]
        current = [process.member in self.group.members for process in at_work]
        assert not all(current) or len(given) == len(set(given))

    @invariant()
    def the_generation_never_falls(self) -> None:
        assert self.group.generation >= self.generation
        self.generation = self.group.generation

    @invariant()
    def a_group_has_a_leader_of_its_own_or_is_empty(self) -> None:
        if self.group.members:
            assert self.group.leader in self.group.members.ids()
        elif self.group.state != "PreparingRebalance":
            assert (self.group.state, self.group.leader) == ("Empty", None)

    @invariant()
    def whoever_waits_has_a_deadline_before_it(self) -> None:
        """No wait is for ever: there is always a time at which the group looks again."""
        if self.group.state in ("PreparingRebalance", "CompletingRebalance"):
            assert self.group.next_deadline_ms() >= 0


TestAnyOrderOfCalls = AnyOrderOfCalls.TestCase
