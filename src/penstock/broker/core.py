"""The core of a broker: opens and closes it, runs its timers, and connects its services.

    catalogue      topics on disk           topics         create, grow, delete
    groups         groups of a topic
    publishing     incoming messages        queues         leases and acknowledgements
    dead_letters   bury and redrive         streams        assignment and commits
    schedules      delayed messages         tracing        history of one message
    maintenance    retention, snapshots     triage         dead letters by error
    problems       storage problems         storage        disk space, data directory
    facts          statistics               progress       lag and rate of a group
    overviews      all topics and groups    measuring      metrics
    fetching       raw batches by offset    deliveries     delivery state of ranges
    commits        committed offsets        coordination   members of Kafka groups
    expiry         offsets of empty groups  group_configs  settings of Kafka groups
    restoring      puts back what retention deleted
    staging        publishes of multi-task jobs
    transactions   Kafka transactions       participants   partitions in them, in a cluster
    client_transactions  those of other clients
    access         API keys and users       audit          audit log
    schemas        the schema registry      values         validation of values

A ``Core`` does no waiting and starts no thread.  Its operations are steps
(``steps.py``); a driver runs them under one lock and calls ``tick`` when
``state.alarms`` says so.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from os import PathLike
from random import Random

from penstock.broker.access.access import Access
from penstock.broker.access.audit import Audit
from penstock.broker.journal.intents import Intents
from penstock.broker.kafka.client_transactions import ClientTransactions
from penstock.broker.kafka.coordination import Coordination
from penstock.broker.kafka.expiry import Expiry
from penstock.broker.kafka.group_configs import GroupConfigs
from penstock.broker.kafka.matching import Matching
from penstock.broker.kafka.participants import Participants
from penstock.broker.kafka.transactions import Transactions
from penstock.broker.maintenance.disk import Storage
from penstock.broker.maintenance.maintenance import Maintenance
from penstock.broker.maintenance.restoring import Restoring
from penstock.broker.observability.browsing import Browsing
from penstock.broker.observability.deliveries import Deliveries
from penstock.broker.observability.measuring import Measuring
from penstock.broker.observability.overviews import Overviews
from penstock.broker.observability.progress import Progress
from penstock.broker.observability.stats import Facts
from penstock.broker.observability.tracing import Tracing
from penstock.broker.publish.invalid import InvalidMessages
from penstock.broker.publish.publishing import Publishing
from penstock.broker.publish.schedules import Schedules
from penstock.broker.publish.staging import Staging
from penstock.broker.publish.values import Values
from penstock.broker.queue.dead_letters import DeadLetters
from penstock.broker.queue.queues import Queues
from penstock.broker.queue.transactional_acks import TransactionalAcks
from penstock.broker.queue.triage import Triage
from penstock.broker.registry.registry import Registry
from penstock.broker.schemas.schemas import Schemas
from penstock.broker.state import (
    Chore,
    Group,
    GroupConsumer,
    GroupCursor,
    KafkaGroup,
    Partition,
    State,
    Target,
    Topic,
    Unowned,
)
from penstock.broker.steps import Durable, GiveWay, Steps
from penstock.broker.storage.producer_snapshot import load_dedup_ids, save_producer_snapshot
from penstock.broker.storage.recovery import open_partition
from penstock.broker.stream.commits import OffsetCommits
from penstock.broker.stream.fetching import Fetching
from penstock.broker.stream.streams import Streams
from penstock.broker.topic.catalogue import Catalogue
from penstock.broker.topic.delayed import set_schedule_alarm
from penstock.broker.topic.depth import topic_depth
from penstock.broker.topic.groups import Groups
from penstock.broker.topic.local_registry import LocalRegistry
from penstock.broker.topic.missing import MissingTopics
from penstock.broker.topic.topics import Topics, abandon_partitions, partition_logs
from penstock.broker.turns import Turn
from penstock.clock import Clock, SystemClock
from penstock.config.broker import MEMORY, BrokerConfig
from penstock.errors import (
    CorruptionError,
    DirectoryUnusable,
    InvalidValue,
    PenstockError,
    TopicDamaged,
)
from penstock.groups.shares import ShareGroups
from penstock.log.commit import CommitRound
from penstock.log.files import Files, MemoryFiles, SystemFiles
from penstock.log.open_files import open_files_max
from penstock.model.info import BrokerInfo, PartitionInfo, TopicInfo
from penstock.types import TRANSACTIONS

logger = logging.getLogger("penstock")

RETRY_MS = 1000  # Something due that failed is tried again after this.
SLICE = 10  # Partitions that are opened or closed before other work has a turn: some milliseconds.


class Core:
    def __init__(
        self,
        *,
        directory: str,
        files: Files,
        clock: Clock,
        config: BrokerConfig,
        random: Random,
        commit_round: CommitRound | None = None,
        registry: Registry | None = None,
    ) -> None:
        """``commit_round``: what makes logs durable; syncs, unless given.  ``registry``: else local files."""
        self.state = State(
            directory=directory,
            files=files,
            clock=clock,
            config=config,
            random=random,
            commit_round=commit_round,
        )
        self.catalogue = Catalogue(self.state)
        self.storage = Storage(self.state)
        self.access = Access(self.state)
        self.audit = Audit(self.state)
        self.schemas = Schemas(self.state)
        self.topics = Topics(self.state, self.catalogue)
        self.missing = MissingTopics(self.state, self.topics.create)
        self.groups = Groups(self.state, self.missing)
        local = LocalRegistry(self.state, self.catalogue, self.topics, self.groups)
        self.state.registry = local if registry is None else registry
        self.values = Values(self.state, self.schemas)
        self.publishing = Publishing(
            self.state, self.missing, self.values, InvalidMessages(self.state, self.topics)
        )
        self.dead_letters = DeadLetters(self.state, self.topics, self.publishing, self.groups, self.values)
        self.queues = Queues(self.state, self.dead_letters)
        self.streams = Streams(self.state)
        self.schedules = Schedules(self.state, self.missing, self.publishing, self.values)
        self.tracing = Tracing(self.state)
        self.browsing = Browsing(self.state)
        self.deliveries = Deliveries(self.state)
        self.fetching = Fetching(self.state, self.catalogue)
        self.commits = OffsetCommits(self.state, self.groups)
        self.matching = Matching(self.state)
        self.coordination = Coordination(self.state, self.commits, self.matching)
        self.group_configs = GroupConfigs(self.state, self.groups)
        self.restoring = Restoring(self.state, self.groups, self.publishing)
        self.staging = Staging(self.state, self.topics, self.publishing)
        acks = TransactionalAcks(self.state, self.queues)
        self.participants = Participants(self.state, self.publishing, self.commits, acks)
        self.transactions = Transactions(
            self.state,
            self.topics,
            self.publishing,
            self.participants,
            self.commits,
            self.coordination,
            acks,
        )
        self.client_transactions = ClientTransactions(
            self.state, self.publishing, self.missing, self.transactions, self.values
        )
        self.expiry = Expiry(self.state, self.groups, self.commits)
        self.maintenance = Maintenance(self.state, self.staging)
        self.facts = Facts(self.state)
        self.progress = Progress(self.state)
        self.overviews = Overviews(self.state, self.progress)
        self.measuring = Measuring(self.state, self.progress)
        self.triage = Triage(self.state, self.dead_letters)

    # Life.

    def open(self) -> Steps[None]:
        """Lock the directory and recover everything in it; jobs may be queued.

        The steps only give way: an event loop has other work, a thread just exhausts them.
        """
        self.state.files.ensured = set()
        try:
            topics = self.catalogue.open()
            while self.catalogue.trash:
                if self.catalogue.remove_some(self.catalogue.trash[-1], SLICE):
                    self.catalogue.trash.pop()
                yield GiveWay()
            for topic in topics:
                try:
                    yield from self._open_topic(topic)
                except CorruptionError as error:
                    self._give_up(topic, error)
            self.transactions.open()
            self.access.open()
            self.group_configs.open()
            self.schemas.open()
            self.catalogue.settle(self._highest_producer)
            self.storage.opened()
        except BaseException:
            self._abandon()
            raise
        finally:
            self.state.files.ensured = None
        self.state.alarms.set(
            self.state.upkeep, self.state.clock.steady_ms() + self.state.config.maintenance_ms
        )

    def _open_topic(self, topic: Topic) -> Steps[None]:
        self.state.topics[topic.name] = topic
        partitions: list[Partition | Unowned] = []
        try:
            for number in range(topic.settings.partitions):
                owner = self.state.registry.owner(topic.name, number)
                opened = (
                    open_partition(self.state, topic, number) if owner is None else Unowned(number, *owner)
                )
                partitions.append(opened)
                if number % SLICE == SLICE - 1:
                    self.state.grow(SLICE)
                    yield GiveWay()
        finally:
            topic.partitions.extend(partitions)
        yield from self._revive(topic)
        yield GiveWay()

    def _give_up(self, topic: Topic, error: CorruptionError) -> None:
        """Take a topic offline that cannot be opened."""
        del self.state.topics[topic.name]
        topic.deleted = True  # For whatever was begun with it.
        for partition in topic.partitions:
            partition.groups.clear()
            for log in partition_logs(partition):
                log.abandon()
        self.catalogue.names.pop(topic.id, None)
        path = error.path.removeprefix(f"{topic.directory}/")
        self.catalogue.set_offline(TopicDamaged(topic=topic.name, why=f"{path}: {error.why}"))

    def _highest_producer(self) -> int:
        """The highest producer id that was used; -1 if there is none."""
        known = [
            producer_id
            for topic in self.state.topics.values()
            for partition in topic.partitions
            for producer_id, *_ in partition.producers.snapshot()
        ]
        if self.state.ledger is not None:
            known += self.state.ledger.by_producer
        return max(known, default=-1)

    def _revive(self, topic: Topic) -> Steps[None]:
        """Groups, dedup ids, alarms and unfinished jobs of a topic that was just opened."""
        for partition in topic.partitions:
            self._find_groups(partition)
        for partition in topic.partitions:
            self._complete_groups(partition)
            load_dedup_ids(self.state, partition)
            self._revive_partition(partition)
            if partition.number % SLICE == SLICE - 1:
                yield GiveWay()
        if topic.partitions.get(0) is not None:  # Which has the intents, too.
            self.staging.revive(topic)

    def _find_groups(self, partition: Partition) -> None:
        topic = partition.topic
        for cursor in partition.groups.values():
            if cursor.group not in topic.groups:
                topic.groups[cursor.group] = Group(topic, cursor.group, cursor.settings)

    def _complete_groups(self, partition: Partition) -> None:
        for group in partition.topic.groups.values():
            if group.name not in partition.groups:  # The crash came in the middle of making it.
                self.groups.write_on(partition, group, self.state.clock.steady_ms())

    def _revive_partition(self, partition: Partition) -> None:
        if partition.schedule is not None:
            set_schedule_alarm(self.state, partition)
        if partition.outbox:
            self.state.jobs.append(self.publishing.drain_outbox(partition))
        for cursor in partition.groups.values():
            if cursor.engine.exhausted:
                self.dead_letters.bury_soon(cursor)
            self.state.alarms.set(cursor, cursor.engine.next_due_ms(self.state.clock.steady_ms()))

    def close(self, flush_ms: int | None = None) -> Steps[None]:
        """Release leases, write everything, unlock the directory.  There are no further calls.

        Partitions that are not closed after ``flush_ms`` are left as after a crash, which loses nothing that
        was acknowledged.  The steps only give way, as those of ``open``; they must be taken to the end.
        """
        late_ms = None if flush_ms is None else self.state.clock.steady_ms() + flush_ms
        left = 0
        try:
            for topic in self.state.topics.values():
                for group in topic.groups.values():
                    for consumer in list(group.consumers.values()):
                        self.close_consumer(consumer)
                for partition in topic.partitions:
                    if late_ms is None or self.state.clock.steady_ms() < late_ms:
                        self._close_partition(partition)
                    else:
                        if not left:  # Else the disk thread would hold one log after the other.
                            self.state.commit.forget()
                        self._leave_partition(partition)
                        left += 1
                    if partition.number % SLICE == SLICE - 1:
                        yield GiveWay()
                yield GiveWay()
            if left:
                logger.warning(
                    "%d partitions could not be flushed to disk in time; the next start recovers them", left
                )
            self._close_ledger()
        finally:
            self.state.closed = True
            self.state.commit.close()
            self.audit.close()
            self.catalogue.close()

    def _close_partition(self, partition: Partition) -> None:
        """Flush and close a partition; a failing disk must not keep the others open."""
        schedule, journal = partition.schedule, partition.journal
        intents = partition.topic.intents if partition.number == 0 else None
        closing: list[Callable[[], object]] = [
            lambda: self.maintenance.close_journal(partition),
            lambda: save_producer_snapshot(partition),
        ]
        if journal is not None:
            closing.append(journal.close)
        if schedule is not None:
            closing.append(schedule.close)
        if intents is not None:
            closing.append(intents.log.close)
        closing.append(partition.log.close)
        for close in closing:
            try:
                close()
            except PenstockError as error:
                logger.warning("closing %s: %s", partition.directory, error)
        for log in partition_logs(partition):
            log.abandon()

    def _leave_partition(self, partition: Partition) -> None:
        """Close the files without a sync; what was noted is written, so that released leases stay so."""
        if partition.journal is not None:
            with suppress(PenstockError):
                partition.journal.flush()
        for log in partition_logs(partition):
            log.abandon()

    # Partitions that come and go.

    def open_partition(self, name: str, number: int, epoch: int, deliver_from_ms: int = 0) -> Steps[None]:
        """Serve a partition whose files are here from now on, as its owner since ``epoch``.

        Messages are delivered from ``deliver_from_ms`` on: until then the previous owner may (rule 25).
        """
        topic = self.state.any_topic(name)
        with Turn(self.state, [topic.changes]) as turn:
            yield from turn.wait()
            self.state.check_alive(topic)
            if topic.partitions.get(number) is not None or not 0 <= number < len(topic.partitions):
                why = "it is open, or there is none"
                raise InvalidValue(name="partition", value=number, why=why)
            opening = partial(open_partition, self.state, topic, number, epoch)
            partition = yield from self.topics.aside(opening, topic.files)
            try:
                self.state.check_alive(topic)
                self._find_groups(partition)
                for each in (*topic.partitions.owned, partition):  # It may have added a group.
                    self._complete_groups(each)
                load_dedup_ids(self.state, partition)  # ``NotCached``: it is opened again.
                if name == TRANSACTIONS:
                    self.transactions.adopt(partition)
            except BaseException:
                abandon_partitions([partition])
                raise
            partition.deliver_from_ms = deliver_from_ms
            topic.partitions.put(partition)
            topic.resized()
            self._revive_partition(partition)
            if number == 0:
                self.staging.revive(topic)
            if partition.log.transactions.open:
                self.state.jobs.append(self.transactions.look())
        topic.wake()

    def close_partition(self, name: str, number: int, owner: int = -1, epoch: int = 0) -> Steps[None]:
        """Stop serving a partition, which ``owner`` will have, or has; returns when all of it is durable.

        New requests are refused from now on.  Those that have written are answered as ever.  Leases are
        neither settled nor given back here: the next owner gives them back when it opens the partition.
        """
        topic = self.state.any_topic(name)
        with Turn(self.state, [topic.changes]) as turn:
            yield from turn.wait()
            self.state.check_alive(topic)
            partition = topic.partition(number)
            topic.partitions.put(Unowned(number, owner, epoch))
            partition.closed = True
            self._free_consumers(partition)
            topic.resized()
            topic.wake()
            try:
                yield from self._drain(partition)
            finally:
                self._let_go(partition)

    def set_owner(self, name: str, number: int, owner: int, epoch: int) -> None:
        """Note which node owns a partition that is not served here, for the error ``NotOwner``."""
        topic = self.state.any_topic(name)
        if topic.partitions.get(number) is None:
            topic.partitions.put(Unowned(number, owner, epoch))

    def _free_consumers(self, partition: Partition) -> None:
        """Messages of a partition that is closed no longer count against the limits of consumers."""
        topic = partition.topic
        for cursor in partition.groups.values():
            consumers = topic.groups[cursor.group].consumers
            for lease in cursor.engine.leases.values():
                if lease.consumer in consumers:
                    held = sum(end - start for start, end in lease.unsettled())
                    consumers[lease.consumer].in_flight -= held
        if not topic.partitions.owned:
            for group in topic.groups.values():
                for consumer in group.consumers.values():
                    consumer.closed = True
                    consumer.refusal = topic.partitions.refusal(partition.number)
            topic.groups.clear()  # Those of the next partition that comes are in its journal.

    def _drain(self, partition: Partition) -> Steps[None]:
        """Wait until everything that was written is durable, also by operations in progress."""
        while True:
            if partition.journal is not None:
                partition.journal.flush()
            behind = [log for log in partition_logs(partition) if log.durable < log.written]
            if not behind:
                return
            for log in behind:
                yield Durable(log)

    def _let_go(self, partition: Partition) -> None:
        topic = partition.topic
        refusal = topic.partitions.refusal(partition.number)
        self._close_partition(partition)
        for log in partition_logs(partition):
            log.reject(refusal)
        partition.groups.clear()
        if topic.name == TRANSACTIONS:
            self.transactions.release(partition)
        topic.dedup.forget_partition(partition.number)
        if partition.number == 0:
            topic.intents, topic.intents_error = None, None
        self.state.problems.forget_partition(topic.name, partition.number)

    def _close_ledger(self) -> None:
        if self.state.ledger is not None:
            try:
                self.state.ledger.log.close()
            except PenstockError as error:
                logger.warning("closing the ledger of transactions: %s", error)

    def _abandon(self) -> None:
        """Opening failed: close what was opened, without changing anything."""
        for topic in self.state.topics.values():
            for partition in topic.partitions:
                for log in partition_logs(partition):
                    log.abandon()
        if self.state.ledger is not None:
            self.state.ledger.log.abandon()
        self.state.commit.close()
        self.catalogue.close()

    # Time.

    def tick(self) -> Steps[None]:
        """Do what is due: overdue leases, due retries, schedules, sessions, flushes, upkeep."""
        now_ms = self.state.clock.steady_ms()
        for target in self.state.alarms.due(now_ms):
            try:
                yield from self._ring(target)
            except PenstockError as error:  # The others have their turn all the same.
                self.storage.retry_later(error)
                self.state.alarms.set(target, now_ms + RETRY_MS)

    def _ring(self, target: Target) -> Steps[None]:
        match target:
            case GroupCursor() if target.partition.groups.get(target.group) is target:
                self.queues.look(target)
            case Partition() if not target.topic.deleted and not target.closed:
                yield from self._ring_partition(target)
            case Group():
                self.streams.look(target)
            case KafkaGroup():
                self.coordination.look(target)
            case ShareGroups():
                self.coordination.look_at_shares(target)
            case Intents():
                self.state.jobs.append(self.staging.resume(target.topic))
            case Transactions():
                self.state.jobs.append(self.transactions.look())
            case Chore():
                yield from self._do(target)
            case _:
                pass  # It is gone.

    def _ring_partition(self, partition: Partition) -> Steps[None]:
        if partition.outbox:  # By a job, so that neither keeps the other from its turn.
            self.state.jobs.append(self.publishing.drain_outbox(partition))
        yield from self.schedules.fire(partition)

    def _do(self, chore: Chore) -> Steps[None]:
        """Run a recurring task of the broker itself."""
        if chore is self.state.flush:
            yield from self.maintenance.flush()
        elif chore is self.state.storage:
            self.storage.check()
        elif chore is self.state.sweep:
            yield from self.topics.sweep()
        elif chore is self.state.upkeep:
            self.storage.check()
            yield from self.state.forget_gone()
            self.transactions.forget_idle()
            yield from self.expiry.look()
            yield from self.topics.sweep()
            yield from self.maintenance.upkeep()

    # Topics.

    def describe_topic(self, name: str) -> TopicInfo:
        """Settings and sizes of a topic."""
        topic = self.state.readable(name)
        partitions = [
            PartitionInfo(
                partition=partition.number,
                start=partition.log.start,
                end=partition.log.high,
                bytes=partition.log.size_bytes,
                scheduled=partition.schedule.count if partition.schedule is not None else 0,
                cut_bytes=partition.log.recovery.cut_bytes,
            )
            for partition in topic.partitions
        ]
        return TopicInfo(
            topic=name,
            settings=topic.settings,
            messages=sum(partition.end - partition.start for partition in partitions),
            bytes=sum(partition.bytes for partition in partitions),
            depth=topic_depth(topic),
            scheduled=sum(partition.scheduled for partition in partitions),
            published=topic.published,
            duplicates=topic.duplicates,
            groups=sorted(group for group in topic.groups if not group.startswith("__")),
            partitions=partitions,
        )

    def stats(self, connections: int) -> BrokerInfo:
        """The broker at a glance; ``connections`` are the server's, if there is one."""
        self.state.check_open()
        return self.facts.stats(self.topics.defaults().durability, connections)

    # Consumers, of either kind.

    def close_consumer(self, consumer: GroupConsumer, disconnected: bool = False) -> None:
        """Close a consumer and release what it holds; the attempt counts if its connection was lost."""
        if consumer.group.settings.kind == "stream":
            self.streams.close_consumer(consumer)
        else:
            self.queues.close_consumer(consumer, disconnected)


def make_core(
    directory: str | None,
    config: BrokerConfig | None,
    clock: Clock | None,
    files: Files | None,
    random: Random | None,
) -> Core:
    """A core that is not open yet, with the outside world it was given or the real one."""
    if files is None:
        open_max = open_files_max((config or BrokerConfig()).open_files_max)
        files = MemoryFiles() if directory is None else SystemFiles(open_max)
    if directory is not None and (not isinstance(directory, str | PathLike) or "\0" in str(directory)):
        raise DirectoryUnusable(directory=repr(directory), why="give the path of a folder as text")
    return Core(
        directory=MEMORY if directory is None else str(directory),
        files=files,
        clock=clock or SystemClock(),
        config=config or BrokerConfig(),
        random=random or Random(),
    )
