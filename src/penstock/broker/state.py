"""The state of a running broker: topics, partitions, groups, consumers.

    State ── topics ── Topic ── partitions ── Partition ── log, journal, schedule, producers
               │         │                        └── groups ── GroupCursor ── engine, gate, failures
               │         └── groups ── Group ── settings, consumers, coordinator
               └── jobs, alarms, commit, clock, files

This module has only values and small bookkeeping.  The logic is in the service modules
(publishing, queues, streams, dead_letters, schedules, tracing, maintenance), which all
share one ``State``.  Everything is accessed under one lock, which the driver holds.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, Final, Protocol

from penstock.broker.health.loop_lag import Lag
from penstock.broker.health.problems import Problems
from penstock.broker.health.rates import Counts, Meter
from penstock.broker.journal.intents import Intents
from penstock.broker.journal.journal import Journal
from penstock.broker.journal.ledger import Ledger
from penstock.broker.registry.registry import Registry
from penstock.broker.registry.staging_peers import StagingPeers
from penstock.broker.registry.transaction_peers import TransactionPeers
from penstock.broker.steps import GiveWay, Steps, Waiter
from penstock.broker.turns import Turn
from penstock.clock import Clock
from penstock.config.backoff import Backoff
from penstock.config.broker import MEMORY, BrokerConfig, GroupSettings, TopicSettings
from penstock.delivery.dedup import DedupWindow, ProducerTable
from penstock.delivery.engine import DeliveryEngine
from penstock.delivery.events import Output
from penstock.delivery.ordering import KeyGate
from penstock.errors import (
    Closed,
    GroupNotFound,
    NotOwner,
    PartitionNotFound,
    PenstockError,
    TopicDamaged,
    TopicNotFound,
)
from penstock.groups.classic import ClassicGroup
from penstock.groups.commits import Commit
from penstock.groups.configs import GroupConfig
from penstock.groups.consumers import ConsumerGroup
from penstock.groups.coordinator import Coordinator
from penstock.log.commit import CommitRound, GroupCommit
from penstock.log.files import Files, MemoryFiles
from penstock.log.log import Log
from penstock.log.maintenance.restoring import Restoration
from penstock.model.histogram import Histogram
from penstock.model.message import Delivery
from penstock.schedule.schedule import Schedule
from penstock.types import TRANSACTIONS, missing_topic
from penstock.wire.records import Record
from penstock.wire.validation import Limits

Wrap = Callable[[Delivery, list[Record]], list[Any]]

FORGOTTEN_SLICE: Final = 100  # Partitions that are freed before others have a turn.
GROWN_MAX: Final = 300  # New partitions until ``on_grown`` is called: about 10,000 objects.
BYTES_MAX: Final = 2**63 - 1  # What a consumer takes at a time by default.

# From a message that a consumer waits for to one that was left over a weekend.  Each bound is at most three
# times the one before: a quantile is only as precise as the range it lies in.
WAITED_MS: Final = (
    1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000,
    600_000, 1_800_000, 3_600_000, 10_800_000, 28_800_000, 86_400_000, 259_200_000,
)  # fmt: skip


class AttemptHistory:
    """The failed attempts of a message, for its dead letter."""

    __slots__ = ("attempts", "error_class", "error_message", "fingerprint", "first_ms", "last_ms", "why")

    def __init__(self, first_ms: int, why: int) -> None:
        self.first_ms = first_ms
        self.last_ms = first_ms
        self.why = why
        self.attempts = 0
        self.error_class = ""
        self.error_message = ""
        self.fingerprint = ""


class GroupCursor:
    """What one group has settled, leased, to retry and committed on one partition."""

    def __init__(
        self, partition: "Partition", group: str, number: int, settings: GroupSettings, engine: DeliveryEngine
    ) -> None:
        self.partition = partition
        self.group = group
        self.number = number  # The group's number in the partition's journal.
        self.settings = settings
        self.engine = engine
        self.backoff = Backoff.decode(settings.backoff)
        self.uncommitted = settings.uncommitted
        self.gate = KeyGate() if settings.ordered else None
        self.unparked: deque[int] = deque()  # Ordered groups: offsets whose key has become free.
        self.failures: dict[int, AttemptHistory] = {}  # Only of messages that failed and are not settled.
        self.committed = engine.floor  # Stream groups: the next offset to read.
        self.commit: Commit | None = None  # Stream groups: the last commit, as the client sent it.
        self.lost = 0  # Messages retention deleted before the group settled them.
        # Until then (wall time) retention waits for the group, as long as it is not past that offset.
        self.held_until_ms = 0
        self.held_end = 0
        self.full = False  # A consumer was refused more, because of its ``locks_max``.
        self.alarm_ms = -1

    @property
    def high(self) -> int:
        """The group sees only what is below."""
        log = self.partition.log
        return log.safe if self.uncommitted else log.high

    def records(self, start: int, end: int) -> list[Record]:
        """The records with offsets in ``[start, end)`` that the group may see."""
        log = self.partition.log
        return log.all_records(start, end) if self.uncommitted else log.records(start, end)


class Partition:
    """One partition of a topic: its log, journal, schedule and groups."""

    def __init__(self, topic: "Topic", number: int, log: Log) -> None:
        self.topic = topic
        self.number = number
        self.directory = log.path
        self.log = log
        self.journal: Journal | None = None  # Begun with the first group.
        self.schedule: Schedule | None = None  # Begun with the first delayed message.
        self.groups: dict[str, GroupCursor] = {}
        self.group_numbers = 0
        self.producers = ProducerTable()
        # In a cluster: the epochs of producers whose open transactions their coordinators have confirmed.
        self.verified: dict[int, int] = {}
        self.dedup_last = -1  # The last offset whose batch carries dedup ids.
        self.restoration: Restoration | None = None  # Deleted messages that are being put back.
        # Offsets of the log without a record, because it was missing when the others were restored.
        self.holes: list[tuple[int, int]] = []
        self.snapshot_segments = 0  # How many segments the log had when the producer snapshot was written,
        self.snapshot_end = -1  # and its end; -1 if there is none.
        self.outbox: deque[Output] = deque()  # Written to the journal, not yet published.
        self.outbox_targets: set[tuple[str, int]] = set()  # Where it went since the last snapshot.
        self.outbox_sequences: dict[tuple[str, int], int] = {}
        self.producer_id = -1  # Stamped on what the outbox publishes; a new one after each open.
        self.epoch = 0  # By which the cluster has given it to this node; 0: there is no cluster.
        self.closed = False  # It is not of this node any more: who holds it begins nothing with it.
        self.deliver_from_ms = 0  # In a cluster: until then the previous owner may deliver (rule 25).
        self.alarm_ms = -1


class OwnerLease(Protocol):
    """Whether this node still owns what it has open, in a cluster (rule 25)."""

    limited: bool
    node: int  # The number of this node.

    @property
    def lease_ms(self) -> int:
        """The time, by the steady clock, up to which this node may deliver messages and answer reads."""
        ...

    def verify(self) -> Steps[bool]:
        """Whether this node still owned its partitions at some time after the call.

        For a refusal that follows from what this node has: an owner that was replaced without knowing it
        has an old state, and must answer that it is not the owner.
        """
        ...


class Unlimited:
    """A broker that is not in a cluster owns what it has."""

    limited = False
    node = 0
    lease_ms = 1 << 62

    def verify(self) -> Steps[bool]:
        yield from ()
        return True


class Unowned:
    """In place of a partition that another node owns."""

    __slots__ = ("epoch", "number", "owner")

    def __init__(self, number: int, owner: int = -1, epoch: int = 0) -> None:
        self.number = number
        self.owner = owner  # The number of a node; -1: not known.
        self.epoch = epoch


class Partitions:
    """The partitions of a topic by number.

    ``len`` counts all of them, also those of other nodes.  Iterating yields those that are here, in order,
    and an index raises ``NotOwner`` for the others.
    """

    __slots__ = ("_slots", "_topic", "node", "owned")

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._slots: list[Partition | Unowned] = []
        self.owned: list[Partition] = []  # Never changed in place, so that an iteration may wait.
        self.node = 0  # The number of this node in a cluster.

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.owned)

    def __getitem__(self, number: int) -> Partition:
        slot = self._slots[number]
        if isinstance(slot, Partition):
            return slot
        raise self.refusal(number)

    def refusal(self, number: int) -> NotOwner:
        """The error for a partition that is not here."""
        slot = self._slots[number]
        assert isinstance(slot, Unowned), "it is not here"
        return NotOwner(topic=self._topic, partition=number, owner=slot.owner, epoch=slot.epoch)

    def get(self, number: int) -> Partition | None:
        """The partition, or the error if it is not here."""
        slot = self._slots[number] if 0 <= number < len(self._slots) else None
        return slot if isinstance(slot, Partition) else None

    def check_loaded(self) -> None:
        """``NotOwner`` if a partition that this node owns is not here yet."""
        for slot in self._slots:
            if isinstance(slot, Unowned) and slot.owner == self.node:
                raise self.refusal(slot.number)

    def absent(self) -> frozenset[int]:
        """The numbers of those that are not here."""
        return frozenset(slot.number for slot in self._slots if isinstance(slot, Unowned))

    def extend(self, slots: Iterable[Partition | Unowned]) -> None:
        """More partitions, with the next numbers."""
        self._slots += slots
        self._list()

    def put(self, slot: Partition | Unowned) -> None:
        """Replace the entry of a partition: it was opened or closed, or its owner has changed."""
        before, self._slots[slot.number] = self._slots[slot.number], slot
        if isinstance(before, Partition) or isinstance(slot, Partition):
            self._list()

    def clear(self) -> None:
        self._slots, self.owned = [], []

    def _list(self) -> None:
        self.owned = [slot for slot in self._slots if isinstance(slot, Partition)]


class GroupConsumer:
    """One consumer of a group, as the broker sees it."""

    def __init__(self, identity: str, number: int, group: "Group", visibility_ms: int, wrap: Wrap) -> None:
        self.identity = identity
        self.number = number
        self.group = group
        self.visibility_ms = visibility_ms
        self.wrap = wrap
        self.settler: Any = None
        self.in_flight = 0
        self.in_flight_max = 0
        self.answered = 0  # Messages in all; those that were lost are not among them.
        self.paced = 0  # Of these, when it was last looked at how quick the consumer is ...
        self.paced_ms = 0  # ... at this time ...
        self.ahead = 0  # ... and with this result; see queues.py.
        self.joined_ms = 0
        self.turn = 0  # The partition to look at first, so that none is starved.
        self.closed = False
        self.refusal: PenstockError | None = None  # Why it was closed, if it did not close itself.
        self.takes_batches = False  # It is handed record batches, not messages: a front end's.
        self.takes_records = False  # Queue groups: then these as they are, and no bytes of them.
        self.wanted: frozenset[int] | None = None  # Queue groups: only these partitions; None: all.
        self.bytes_max = BYTES_MAX  # About so many at a time ...
        self.bytes_exact = False  # ... or never more: see ``BatchConsumer.want``.
        self.one_at_least = True  # But one message, however large.
        # Queue groups: nothing of a partition of which the group has so many messages in flight; 0: no limit.
        self.locks_max = 0
        self.leases_singly = False  # Queue groups: each message has a lease, and so a deadline, of its own.
        # Ordered queue groups: a receive may get several messages of a key, in order; None: one of each.
        self.key_batches: set[bytes] | None = None  # The keys of the receive so far ...
        self.followers: deque[int] = deque()  # ... and those in line behind the last of them.
        self.positions: dict[int, int] = {}  # Stream groups: next offset to read of each owned partition.
        # Stream groups: called with the partitions when they have changed, before anything is read of them.
        self.on_assignment: Callable[[list[int]], None] | None = None

    def check_open(self) -> None:
        if self.closed:
            raise self.refusal or Closed(what="consumer")


class Group:
    """A named reader of a topic."""

    def __init__(self, topic: "Topic", name: str, settings: GroupSettings) -> None:
        self.topic = topic
        self.name = name
        self.settings = settings
        self.consumers: dict[int, GroupConsumer] = {}
        self.hungry: dict[
            int, GroupConsumer
        ] = {}  # Those that wait for messages and have room; longest first.
        self.reader_ms = -1  # Steady time of the last commit from outside, which is a reader's sign of life.
        self.coordinator = Coordinator(len(topic.partitions), settings.session_timeout_ms)
        self.coordinator.leave_out(topic.partitions.absent())
        self.delivered = 0
        self.acked = 0
        self.nacked = 0
        self.timed_out = 0
        self.dead_lettered = 0
        self.buried: dict[int, int] = {}  # The same by the reason (events.WHY).
        self.redelivered = 0  # Of those delivered.
        self.waited_ms = Histogram(WAITED_MS)  # From publish to the first delivery.
        self.expired = 0
        self.meter = Meter()
        self.sample_ms = 0  # From then on the counts are sampled before they change; see rates.py.
        self.alarm_ms = -1

    def counts(self) -> Counts:
        """What the meter measures: delivered, acked, failed, dead-lettered."""
        return self.delivered, self.acked, self.nacked + self.timed_out, self.dead_lettered

    def handed_out(self, count: int, attempt: int, waited_ms: int) -> None:
        """Messages were delivered together; the oldest of them had waited so long."""
        self.delivered += count
        if attempt == 1:
            self.waited_ms.note(max(waited_ms, 0), count)
        else:
            self.redelivered += count

    def maybe_sample(self, now_ms: int) -> None:
        """Sample the counts, which are about to change, if it is time."""
        if now_ms >= self.sample_ms:
            self.sample_ms = self.meter.sample(now_ms, self.counts())


class Topic:
    """A named log in partitions."""

    def __init__(
        self, name: str, settings: TopicSettings, directory: str, files: Files, dedup_ids_max: int
    ) -> None:
        self.name = name
        self.files = files  # Where its partitions are kept: on the disk, or in memory.
        self.settings = settings
        self.directory = directory
        self.partitions = Partitions(name)
        self.groups: dict[str, Group] = {}
        self.intents: Intents | None = None  # Begun with the first staged publish.
        self.intents_error: PenstockError | None = None  # They cannot be read: nothing is staged here.
        self.dedup = DedupWindow(settings.dedup_window_ms, dedup_ids_max)
        self.waiters: dict[Waiter, None] = {}  # The one that has waited longest is first, and is woken first.
        self.appends: dict[
            int, deque[Turn]
        ] = {}  # By partition, while an append waits there (append_order.py).
        self.changes: deque[Turn] = deque()  # Of its partitions or groups, in many steps: one at a time.
        self.alterations: deque[Turn] = deque()  # Of its settings, as they were asked for.
        self.limits = Limits(settings.message_bytes_max, keyed=settings.compact)  # Of its records.
        self.turn = 0  # Messages without a key go round the partitions.
        self.published = 0
        self.duplicates = 0
        self.invalid = 0  # Messages that did not match the schemas of the topic.
        self.meter = Meter()
        self.sample_ms = 0  # As a group's, but by the timestamps of its records.
        self.deleted = False
        self.id = b""  # Sixteen bytes: a topic of the same name that is made later has others.
        self.version = 0  # Another one after each change of its settings, and never one it had before.

    def partition(self, number: Any) -> Partition:
        """The partition of that number, or the error for the caller."""
        if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < len(self.partitions):
            return self.partitions[number]
        raise PartitionNotFound(topic=self.name, partition=number, last=len(self.partitions) - 1)

    def resized(self) -> None:
        """Partitions were opened or closed: reassign them to the members of stream groups."""
        absent = self.partitions.absent()
        for group in self.groups.values():
            group.coordinator.resize(len(self.partitions))
            group.coordinator.leave_out(absent)

    def group(self, name: Any) -> Group:
        """The group of that name, or the error for the caller."""
        try:
            return self.groups[name]
        except KeyError:
            self._check_groups_known()
            raise GroupNotFound(topic=self.name, group=name) from None

    def _check_groups_known(self) -> None:
        """``NotOwner`` if partitions are elsewhere or still being loaded: groups are in their journals."""
        if not self.partitions.owned and len(self.partitions):
            raise self.partitions.refusal(0)
        self.partitions.check_loaded()

    def wake(self) -> None:
        """Wake everything that waits for this topic."""
        waiters, self.waiters = self.waiters, {}
        for waiter in waiters:
            waiter.wake()


class ServerCounts:
    """Counts that only a server has, for statistics and metrics; 0 without a server."""

    def __init__(self) -> None:
        self.connections: Callable[[], int] = lambda: 0
        self.tasks: Callable[[], int] = lambda: 0  # On the event loop.


class KafkaGroup:
    """A Kafka group that has members, over all the topics they read."""

    def __init__(self, name: str, machine: ClassicGroup | ConsumerGroup, epoch: int) -> None:
        self.name = name
        self.machine = machine
        self.epoch = epoch  # Since when this node coordinates it; 0: there is no cluster.
        self.alarm_ms = -1


class Target(Protocol):
    """Something with an alarm; -1 if there is none."""

    alarm_ms: int


class Alarms:
    """All alarms, the earliest first.  A target has one, which only moves to earlier times."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Target]] = []
        self._count = 0
        self.on_earlier: Callable[[], None] = lambda: (
            None
        )  # The driver's: the next alarm is nearer than it was.

    def set(self, target: Target, due_ms: int) -> None:
        """Set the alarm of ``target`` to ``due_ms``, unless it is earlier."""
        if due_ms < 0 or 0 <= target.alarm_ms <= due_ms:
            return
        earlier = not self._heap or due_ms < self._heap[0][0]
        target.alarm_ms = due_ms
        self._count += 1
        heapq.heappush(self._heap, (due_ms, self._count, target))
        if earlier:
            self.on_earlier()

    def due(self, now_ms: int) -> list[Target]:
        """The targets whose time has come."""
        targets: list[Target] = []
        while self._heap and self._heap[0][0] <= now_ms:
            due_ms, _, target = heapq.heappop(self._heap)
            if target.alarm_ms == due_ms:  # Else an earlier alarm has taken its place.
                target.alarm_ms = -1
                targets.append(target)
        return targets

    def next_ms(self) -> int:
        """When the next alarm is; -1 if there is none."""
        return self._heap[0][0] if self._heap else -1


class Chore:
    """An alarm target for a recurring task of the broker."""

    def __init__(self) -> None:
        self.alarm_ms = -1


class State:
    def __init__(
        self,
        *,
        directory: str,
        files: Files,
        clock: Clock,
        config: BrokerConfig,
        random: Random,
        commit_round: CommitRound | None = None,
    ) -> None:
        self.directory = directory
        self.in_memory = directory == MEMORY
        self.files = files
        self.memory = MemoryFiles()  # For topics of durability "memory".
        self.clock = clock
        self.config = config
        self.random = random
        self.commit = GroupCommit(commit_round)
        self.sync_soon: Callable[[], None] = self.commit.kick  # A driver may wait for others who write.
        self.registry: Registry  # Set by the core.
        # In a cluster: has the owner of a partition take a batch (``Publishing.append_output``).
        self.forward: Callable[[str, int, bytes], Steps[None]] = self._refuse
        self.alarms = Alarms()
        self.lag = Lag()  # Of the event loop of a server.
        self.server_counts = ServerCounts()
        self.flush = Chore()  # Journals with buffered events, logs that are flushed every second.
        self.upkeep = Chore()  # Retention, compaction, snapshots.
        self.storage = Chore()  # While there is no room on the disk: looks whether there is.
        self.problems = Problems(clock)
        self.sweep = Chore()  # What topics that were deleted have left on the disk.
        self.topics: dict[str, Topic] = {}
        self.offline: dict[str, TopicDamaged] = {}  # Topics that are there, and cannot be opened.
        self.kafka_groups: dict[str, KafkaGroup] = {}
        self.awaited: set[Waiter] = set()  # Answers and turns that operations wait for.
        self.group_configs: dict[str, GroupConfig] = {}  # What was said about Kafka's groups.
        self.ledger: Ledger | None = None  # Begun with the first transactional id; not in a cluster.
        self.transaction_peers: TransactionPeers | None = None  # In a cluster.
        self.staging_peers: StagingPeers | None = None  # In a cluster.
        self.unpacking: deque[Turn] = deque()  # For the thread that looks at large batches.
        self.jobs: deque[Steps[None]] = deque()
        self.on_grown: Callable[[], None] = lambda: None  # A server's: there are many new objects, to stay.
        self._grown = 0  # Partitions, and groups on partitions, since it was called.
        self.gone: list[Topic] = []  # Topics that were deleted, and may still be in use.
        self.unheard: dict[Partition, None] = {}  # Those with messages that are written and not yet durable.
        self.consumer_numbers = 0
        self.versions = clock.wall_ms() << 20  # Given out so far; beyond those of the broker before this one.
        self.opened_ms = clock.steady_ms()
        self.lease: OwnerLease = Unlimited()
        self.node_facts: Callable[[], Any] | None = None  # ``NodeFacts``, if this is a node of a cluster.
        self.closed = False

    def watch(self, log: Log, what: str, topic: str | None = None, partition: int | None = None) -> None:
        """Note that a log was opened: report its damage, and include it in group commits."""
        self.problems.watch(log, what, topic, partition)
        if not (self.in_memory or log.cached or log.config.durability == "memory"):
            log.home = self.directory if topic is None else f"{self.directory}/topics/{topic}"
        log.on_sync = self.commit.mark
        if log.durable < log.written:
            self.commit.mark(log)

    def _refuse(self, topic: str, number: int, _: bytes) -> Steps[None]:
        self.topics[topic].partition(number)
        yield from ()

    def grow(self, count: int) -> None:
        """Note that this many partitions, or groups on partitions, were added."""
        self._grown += count
        if self._grown >= GROWN_MAX:
            self._grown = 0
            self.on_grown()

    def forget_gone(self) -> Steps[None]:
        """Break the rings of topics that are gone, so that their memory is freed without a search for it."""
        gone, self.gone = self.gone, []
        for topic in gone:
            left = list(topic.partitions)
            topic.partitions.clear()
            topic.groups.clear()
            while left:
                left.pop().groups.clear()
                if len(left) % FORGOTTEN_SLICE == 0:
                    yield GiveWay()

    def new_version(self) -> int:
        """A version for a topic that is new or has changed."""
        self.versions += 1
        return self.versions

    def hear(self) -> None:
        """A sync has ended: readers of the topics it was for may look again."""
        topics: dict[Topic, None] = {}
        for partition in list(self.unheard):
            log = partition.log
            topics[partition.topic] = None
            if log.durable >= log.written or log.failed is not None or partition.closed:
                del self.unheard[partition]
        for topic in topics:
            topic.wake()

    def wake_all(self) -> None:
        """Wake everything that waits: the broker is closing."""
        for topic in self.topics.values():
            topic.wake()
        for awaited in list(self.awaited):
            awaited.wake()

    def aging_ms(self) -> int:
        """The time by which stored things become old enough to be deleted.

        It is the wall clock, except where that has jumped ahead since the start: then it is the steady clock,
        so that nothing is deleted before the time for which it is kept has really passed.
        """
        return min(self.clock.wall_ms(), self.clock.steady_ms())

    def check_alive(self, topic: Topic) -> None:
        """Check after a wait that the broker is still open and the topic still exists."""
        if self.any_topic(topic.name) is not topic:
            raise TopicNotFound(topic=topic.name)

    def readable(self, name: Any, number: Any = None) -> Topic:
        """The topic for a read of one partition, or of all that this node owns.

        ``NotOwner`` if another node may own them by now (rule 25), or if one of them is not loaded yet: an
        answer would leave it out.
        """
        topic = self.topic(name)
        if self.clock.steady_ms() >= self.lease.lease_ms:
            raise NotOwner(topic=topic.name, partition=number if number is not None else 0, owner=-1, epoch=0)
        if number is None and self.lease.limited:
            topic.partitions.check_loaded()
        return topic

    def check_all_loaded(self) -> None:
        """``NotOwner`` if a partition of this node is not loaded yet: the groups on it would be missing."""
        if self.lease.limited:
            for topic in self.topics.values():
                topic.partitions.check_loaded()

    def find(self, name: Any) -> Topic | None:
        """The topic of that name, if there is one that operations may use; the broker must be open."""
        if self.closed:
            raise Closed(what="broker")
        try:
            return self.topics.get(name) if name != TRANSACTIONS else None
        except TypeError:  # Not even a name.
            return None

    def check_open(self) -> None:
        if self.closed:
            raise Closed(what="broker")

    def topic(self, name: Any) -> Topic:
        """The topic of that name, if operations may use it, or the error for the caller."""
        if name == TRANSACTIONS:
            self.check_open()
            raise missing_topic(name)
        return self.any_topic(name)

    def any_topic(self, name: Any) -> Topic:
        """``topic``, also for the transaction log, which only the broker itself uses."""
        if self.closed:
            raise Closed(what="broker")
        try:
            return self.topics[name]
        except (KeyError, TypeError):
            self.check_online(name)
            raise missing_topic(name) from None

    def check_online(self, name: Any) -> None:
        """Raise ``TopicDamaged`` for a topic that is offline, instead of treating it as missing."""
        if isinstance(name, str) and name in self.offline:
            raise self.offline[name]
