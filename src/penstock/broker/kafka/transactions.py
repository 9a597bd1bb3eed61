"""Transactions: messages to many partitions and committed offsets of groups, applied together or not at all.

    init_producer      a producer id and an epoch for a transactional id; fences the previous producer
    enlist             the transaction writes to these partitions            then the producer appends batches
    append             ... and these are the batches                         both in one, in version 2
    enlist_group       ... and commits offsets of this group
    enlist_commits     ... namely these                                      which take effect at the end
    end                1  what was written is synced, whatever the topics promise
                       2  the decision is written to the ledger and synced   the commit point
                       3  a marker to each partition, committed offsets and acks to the groups
                       4  all of that is synced
                       5  the ledger says that it is finished

In version 2 (KIP-890) the decision also contains the producer's next epoch, which the response returns.

A crash before 2 leaves an open transaction: its producer may reconnect and continue it, or it is
aborted at its timeout.  After 2, the next broker that opens the directory continues with 3: a partition
knows from its open transactions whether it already has its marker, and setting a committed offset twice
is harmless.

Readers see nothing of a transaction before its marker, and then all of it in that partition
(``log/transactions.py``); markers reach different partitions at slightly different times.

A caller may give up at any time: an alarm finishes what is decided, and also aborts transactions that
time out.  The timeout restarts when a broker opens the directory.  An open transaction that is missing
from the ledger (because the ledger was lost) is aborted, otherwise readers of its partitions would wait
forever.

In a cluster each partition of the internal topic ``__transactions`` is a ledger, and its owner coordinates
the transactional ids in it; it completes what the previous owner has decided.  Step 3 is then done by the
owners of the partitions (``participants.py``), each of which answers when its part is durable.  Steps 1 and
4 are not needed: a batch is acknowledged only when it is committed, and its marker follows in the same log.
Before step 2 the owners of acked messages reserve them for the commit (``queue/transactional_acks.py``).
"""

import logging
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from penstock.broker.journal.ledger import SEGMENT_BYTES, Ledger
from penstock.broker.kafka.coordination import Coordination
from penstock.broker.kafka.participants import Participants
from penstock.broker.publish.incoming import Look
from penstock.broker.publish.publishing import Appended, Publishing
from penstock.broker.queue.transactional_acks import TransactionalAcks
from penstock.broker.state import Partition, State, Topic
from penstock.broker.steps import Durable, Steps
from penstock.broker.stream.commits import OffsetCommits, check_commit
from penstock.broker.topic.topics import Topics
from penstock.config.broker import DAY_MS, TopicSettings
from penstock.errors import (
    CorruptionError,
    LimitReached,
    NotOwner,
    PartitionNotFound,
    PenstockError,
    ProducerFenced,
    ProducerUnknown,
    RequestError,
    TransactionBusy,
)
from penstock.groups import transactions as rules
from penstock.groups.commits import Commit
from penstock.groups.rebalance import Committer
from penstock.groups.transactions import (
    ANYBODY,
    LOG_PARTITIONS,
    TIMEOUT_MS_MAX,
    AckedRun,
    ActiveProducer,
    Claim,
    Decision,
    Enlisted,
    Transaction,
    TransactionState,
    checked_name,
    log_partition,
)
from penstock.log.log import Log
from penstock.types import TRANSACTIONS, whole_number
from penstock.wire.kafka.codes import Code
from penstock.wire.records import TRANSACTIONAL, read_header

logger = logging.getLogger("penstock")

RETRY_MS: Final = 1000  # Pause before unfinished transactions are retried.
EXPIRY_MS: Final = 7 * DAY_MS  # An id that was not used for this long is forgotten, as in Kafka.
# The same for an id that the broker chose: no client asks for it later.
GENERATED_EXPIRY_MS: Final = 3600 * 1000
GENERATED_KEPT_MS: Final = 60 * 1000  # At the limit; its commit may be repeated until then.
FORGOTTEN_AT_ONCE: Final = 100
LOG_SETTINGS: Final = TopicSettings(
    partitions=LOG_PARTITIONS, retention_ms=None, retention_applies="never", segment_bytes=SEGMENT_BYTES
)


class Transactions:
    """The coordinator of all transactions; in a cluster, of those in this node's part of the log."""

    def __init__(
        self,
        state: State,
        topics: Topics,
        publishing: Publishing,
        participants: Participants,
        commits: OffsetCommits,
        coordination: Coordination,
        acks: TransactionalAcks,
    ) -> None:
        self._state = state
        self._topics = topics
        self._publishing = publishing
        self._participants = participants
        self._commits = commits
        self._coordination = coordination
        self._acks = acks
        self._directory = f"{state.directory}/transactions"
        self._partitioned: dict[int, tuple[Ledger, int]] = {}  # In a cluster: by partition, with its epoch.
        self._deadlines: dict[str, int] = {}  # Of ongoing transactions, by the steady clock.
        self._running: set[str] = set()  # Transactions that an operation is finishing.
        self._told: dict[str, int] = {}  # Of those that are ongoing: how long the ledger was when it knew.
        self._error: PenstockError | None = None  # Why the ledger cannot be read.
        self.alarm_ms = -1

    # Life.

    def open(self) -> None:
        """Load the transactions after the topics were opened, and finish decided ones."""
        if self._state.files.exists(self._directory) and self._is_readable():
            self._take_up(self._ledger)
        unfinished = any(map(self._unfinished, self._ledgers))
        if unfinished or any(partition.log.transactions.open for partition in self._partitions()):
            self._state.jobs.append(self.look())

    def _take_up(self, ledger: Ledger) -> None:
        for name, known in ledger.by_name.items():
            self._watch(ledger, name, known)
            for group, topic, commits in known.committed_offsets():
                self._commits.hold(topic, group, commits)
            if known.state == "committing" and known.acks and ledger is self._state.ledger:
                self._settle_early(ledger, known)

    def _settle_early(self, ledger: Ledger, known: Transaction) -> None:
        """Settle acks of committed transactions before deliveries begin; ``look`` retries offline topics."""
        ledger.log.sync()  # Read, but perhaps not synced: only a durable decision is carried out.
        try:
            self._acks.settle_now(known.acks)
        except PenstockError as error:
            logger.warning("the acks of a committed transaction have to wait: %s", error)

    def adopt(self, partition: Partition) -> None:
        """In a cluster: become coordinator for a partition of the transaction log."""
        ledger = Ledger(partition.log, self._state.clock)
        self._partitioned[partition.number] = ledger, partition.epoch
        self._take_up(ledger)
        if any(known.is_ending for known in ledger.by_name.values()):
            self._state.jobs.append(self.look())

    def release(self, partition: Partition) -> None:
        """In a cluster: another node is the coordinator from now on."""
        ledger, _ = self._partitioned.pop(partition.number, (None, 0))
        if ledger is None or ledger.log is not partition.log:
            return
        for name, known in ledger.by_name.items():
            self._deadlines.pop(name, None)
            self._told.pop(name, None)
            for group, topic, commits in known.committed_offsets():
                self._commits.release(topic, group, commits)

    def prepare(self) -> Steps[None]:
        """In a cluster: create the transaction log if it is missing."""
        if self._state.transaction_peers is not None:
            yield from self._topics.ensure(TRANSACTIONS, LOG_SETTINGS)

    def _is_readable(self) -> bool:
        """Whether the ledger can be opened; if not, nothing is decided, and readers wait for open ones."""
        try:
            return self._ledger is not None
        except CorruptionError as error:
            self._error = error
            message = (
                f"the ledger of transactions cannot be read: at byte {error.position}, "
                f"{error.why}; transactions are refused until it is repaired"
            )
            path = error.path
            self._state.problems.report("transactions", "file_damaged", message, path=path)
            return False

    @property
    def _ledger(self) -> Ledger:
        """The ledger of a single broker, created with the first transactional id."""
        if self._error is not None:
            raise self._error
        if self._state.ledger is None:
            durability = "memory" if self._state.in_memory else "fsync"
            self._state.ledger = Ledger.open(
                self._state.files, self._directory, durability, self._state.clock
            )
            self._state.watch(self._state.ledger.log, "ledger of transactions")
        return self._state.ledger

    def _ledger_of(self, name: str) -> Ledger:
        """The ledger that has a transactional id; ``NotOwner`` if another node has it."""
        return self._ledger if self._state.transaction_peers is None else self._at(log_partition(name))[0]

    def _at(self, number: int) -> tuple[Ledger, int]:
        """A partition of the transaction log, and its epoch."""
        topic = self._state.topics.get(TRANSACTIONS)
        if topic is None:
            raise NotOwner(topic=TRANSACTIONS, partition=number, owner=-1, epoch=0)
        partition = topic.partitions[number]
        found = self._partitioned.get(number)
        if found is None or found[0].log is not partition.log:
            self.adopt(partition)  # It was empty when it was opened.
        return self._partitioned[number]

    @property
    def _ledgers(self) -> list[Ledger]:
        """The ledgers of this node."""
        own = [] if self._state.ledger is None else [self._state.ledger]
        return own + [ledger for ledger, _ in self._partitioned.values()]

    def forget_idle(self) -> None:
        """Forget the ids that have not been used for a long time."""
        horizon_ms = self._state.aging_ms() - EXPIRY_MS
        generated_ms = self._state.aging_ms() - GENERATED_EXPIRY_MS
        for ledger in self._ledgers:
            for name, known in list(ledger.by_name.items()):
                if known.used_ms > generated_ms:
                    break  # The oldest come first.
                if known.is_at_rest and (known.used_ms <= horizon_ms or name.startswith(rules.GENERATED)):
                    ledger.forget(name)

    # Producers.

    def init_producer(
        self, name: str | None, timeout_ms: int, producer_id: int, epoch: int, claim: Claim = ANYBODY
    ) -> Steps[tuple[int, int]]:
        """Id and epoch for a producer: a new id, or the next epoch of its transactional id.

        ``producer_id`` and ``epoch`` are those it has, or -1.
        """
        if name is None:
            return self._state.registry.new_producer_id(), 0
        checked_name(name)
        whole_number("timeout_ms", timeout_ms, 1, TIMEOUT_MS_MAX)
        owner = (producer_id, epoch) if producer_id >= 0 else None
        ledger = self._ledger_of(name)
        known = ledger.by_name.get(name)
        if known is not None:
            rules.check_claim(known, name, claim)
        else:
            self._check_limit()
        while known is not None and known.state == "ongoing":
            rules.check_owner(known, owner)
            yield from self._decide(ledger, name, rules.fence(known, self._state.clock.wall_ms()))
            known = ledger.by_name[name]
            owner = owner and (known.producer_id, known.epoch)
        fresh = rules.initialise(
            known,
            self._state.registry.new_producer_id,
            timeout_ms=timeout_ms,
            now_ms=self._state.clock.wall_ms(),
            owner=owner,
            who=claim.who,
        )
        yield from self._promise(ledger, name, fresh)
        return fresh.producer_id, fresh.epoch

    def begin(self, name: str, timeout_ms: int, claim: Claim) -> Steps[tuple[int, int]]:
        """Begin a transaction in the next epoch of the id, whatever it writes to later.

        The begin need not be durable: a broker that has forgotten it refuses the transaction's requests.
        """
        producer_id, epoch = yield from self.init_producer(name, timeout_ms, -1, -1, claim)
        known = self._known(name, producer_id, claim)
        begun = rules.enlist(known, producer_id, epoch, (), self._state.clock.wall_ms())
        self._put(self._ledger_of(name), name, begun)
        return producer_id, epoch

    def _check_limit(self) -> None:
        """Forget ids that the broker chose, except those that a client may still use."""
        limit = self._state.config.transactional_ids_max
        if sum(len(ledger.by_name) for ledger in self._ledgers) < limit:
            return
        horizon_ms = self._state.aging_ms() - GENERATED_KEPT_MS
        for ledger in self._ledgers:
            old = (
                name
                for name, known in ledger.by_name.items()
                if name.startswith(rules.GENERATED) and known.is_at_rest and known.used_ms <= horizon_ms
            )
            found = list(islice(old, FORGOTTEN_AT_ONCE))
            for name in found:
                ledger.forget(name)
            if found:
                return
        raise LimitReached(what="transactional ids", limit=limit, setting="transactional_ids_max")

    # The contents of a transaction.

    def enlist(
        self, topic: str, numbers: list[int], name: str, producer_id: int, epoch: int, claim: Claim = ANYBODY
    ) -> Steps[None]:
        """Add partitions of a topic to the transaction."""
        self._check_partitions(topic, numbers)
        known, now_ms = self._known(name, producer_id, claim), self._state.clock.wall_ms()
        partitions = [(topic, number) for number in numbers]
        enlisted = rules.enlist(known, producer_id, epoch, partitions, now_ms)
        yield from self._promise(self._ledger_of(name), name, enlisted)

    def _check_partitions(self, name: str, numbers: Iterable[int]) -> None:
        """Check that the partitions exist, on any node."""
        topic = self._state.topic(name)
        for number in numbers:
            if not 0 <= number < len(topic.partitions):
                raise PartitionNotFound(topic=name, partition=number, last=len(topic.partitions) - 1)

    def confirm(
        self,
        name: str,
        producer_id: int,
        epoch: int,
        partition: rules.TopicPartition,
        enlisting: rules.Enlisting,
        claim: Claim = ANYBODY,
    ) -> Steps[Enlisted]:
        """Confirm to the owner of a partition that a transaction has enlisted it."""
        ledger, coordinator_epoch = self._at(log_partition(name))
        known = self._known(name, producer_id, claim)
        if enlisting == "join":
            rules.check_ongoing(known, producer_id, epoch, "a publish")
        if enlisting != "verify":
            self._check_partitions(partition[0], [partition[1]])
            known = rules.enlist(known, producer_id, epoch, [partition], self._state.clock.wall_ms())
        else:
            rules.check_write(known, producer_id, epoch, partition)
        yield from self._promise(ledger, name, known)
        return Enlisted(known.number, coordinator_epoch)

    def enlist_group(
        self, name: str, producer_id: int, epoch: int, group: str, claim: Claim = ANYBODY
    ) -> Steps[None]:
        """Add a group whose offsets the transaction commits."""
        known, now_ms = self._known(name, producer_id, claim), self._state.clock.wall_ms()
        enlisted = rules.enlist_group(known, producer_id, epoch, group, now_ms)
        yield from self._promise(self._ledger_of(name), name, enlisted)

    def enlist_commits(
        self,
        topic: str,
        group: str,
        commits: dict[int, Commit],
        name: str,
        producer_id: int,
        epoch: int,
        by: Committer,
        add: bool,
        claim: Claim = ANYBODY,
    ) -> Steps[Code]:
        """Stage committed offsets of a group in the transaction, after checking the member.

        ``add``: the group need not be enlisted before.
        """
        self._check_commits(topic, group, commits)
        refusal = self._coordination.check(group, by)
        if not refusal:
            yield from self._stage_commits(topic, group, commits, name, producer_id, epoch, add, claim)
        return refusal

    def _check_commits(self, topic: str, group: str, commits: dict[int, Commit]) -> None:
        self._check_partitions(topic, commits)
        for commit in commits.values():
            check_commit(commit)
        self._commits.check_kind(topic, group)

    def stage_commits(
        self,
        topic: str,
        group: str,
        commits: dict[int, Commit],
        name: str,
        producer_id: int,
        epoch: int,
        add: bool,
        group_epoch: int,
        claim: Claim = ANYBODY,
    ) -> Steps[None]:
        """``enlist_commits`` without a check of the member, which the group's coordinator has done.

        ``group_epoch`` says since when that node has coordinated the group.  A former coordinator is refused:
        members of its successor may have read the offsets already (``held_offsets``).
        """
        self._state.registry.check_coordinator(group, group_epoch)
        self._check_commits(topic, group, commits)
        return self._stage_commits(topic, group, commits, name, producer_id, epoch, add, claim)

    def _stage_commits(
        self,
        topic: str,
        group: str,
        commits: dict[int, Commit],
        name: str,
        producer_id: int,
        epoch: int,
        add: bool,
        claim: Claim,
    ) -> Steps[None]:
        known, now_ms = self._known(name, producer_id, claim), self._state.clock.wall_ms()
        if add:
            known = rules.enlist_group(known, producer_id, epoch, group, now_ms)
        enlisted = rules.enlist_commits(known, producer_id, epoch, group, {topic: commits}, now_ms)
        ledger = self._ledger_of(name)
        self._put(ledger, name, enlisted)
        before = known.groups[group].commits.get(topic, {})
        self._commits.hold(topic, group, commits.keys() - before.keys())
        yield Durable(ledger.log)

    def held_offsets(
        self, topic: str, group: str, numbers: list[int], ledgers: list[int], group_epoch: int
    ) -> list[int]:
        """The partitions whose offsets transactions of these ledgers may still commit.

        ``group_epoch`` is that of the group's coordinator, which asks: from then on this node, and each that
        has the ledgers later, knows it, and refuses offsets from coordinators before it.
        """
        self._state.registry.check_coordinator(group, group_epoch)
        if self._state.clock.steady_ms() >= self._state.lease.lease_ms:
            raise NotOwner(topic=TRANSACTIONS, partition=0, owner=-1, epoch=0)
        for number in ledgers:
            self._at(number)  # ``NotOwner``: another node has it, or is loading it.
        return [number for number in numbers if self._commits.unsettled(topic, group, number)]

    def enlist_acks(
        self, acks: list[AckedRun], name: str, producer_id: int, epoch: int, claim: Claim = ANYBODY
    ) -> Steps[None]:
        """Add messages of queue groups to ack with the commit; they must be leased now and at the commit.

        In a cluster their owners have been asked before (``check_acks``).
        """
        known, now_ms = self._known(name, producer_id, claim), self._state.clock.wall_ms()
        enlisted = rules.enlist_acks(known, producer_id, epoch, acks, now_ms)
        if self._state.transaction_peers is None:
            self._acks.check(acks)
        yield from self._promise(self._ledger_of(name), name, enlisted)

    def check_ongoing(self, what: str, name: str, producer_id: int, epoch: int, claim: Claim) -> None:
        """Refuse a request unless its transaction is open."""
        rules.check_ongoing(self._known(name, producer_id, claim), producer_id, epoch, what)

    def check_acks(self, acks: list[AckedRun]) -> None:
        """Refuse acks of messages of this node that are not leased."""
        self._acks.check(acks)

    def join(
        self, topic: Topic, numbers: list[int], name: str, producer_id: int, epoch: int, claim: Claim
    ) -> Steps[None]:
        """Check that a transaction is open, and enlist partitions that the broker will write batches to."""
        if self._state.transaction_peers is None:
            self.check_ongoing("a publish", name, producer_id, epoch, claim)
            yield from self.enlist(topic.name, numbers, name, producer_id, epoch, claim)
            self._state.check_alive(topic)
            for number in numbers:  # It may have ended in the meantime.
                known = self._ledger.by_name.get(name)
                rules.check_write(known, producer_id, epoch, (topic.name, number))
            return
        for number in numbers:
            verify = self._participants.verify
            yield from verify(topic, number, name, producer_id, epoch, "join", claim)
        self._state.check_alive(topic)
        for number in numbers:
            if topic.partition(number).verified.get(producer_id) != epoch:
                raise ProducerFenced(producer_id=producer_id, epoch=epoch, current=epoch + 1)

    def append(
        self,
        topic: str,
        batches: list[tuple[int, bytes]],
        wait: bool,
        name: str,
        add: bool,
        claim: Claim = ANYBODY,
    ) -> Steps[list[Appended | PenstockError]]:
        """Append batches of a transaction; one answer each.  ``add``: first enlist their partitions.

        They are written after the ledger is durable (X2).
        """
        if self._state.transaction_peers is not None:

            def admit(looks: list[Look]) -> Steps[None]:
                return self._participants.admit(
                    self._state.topic(topic), looks, name, "begin" if add else "verify", claim
                )

            return (yield from self._publishing.append_records(topic, batches, wait, admit))
        if not add:
            return (yield from self._publishing.append_records(topic, batches, wait))
        return (yield from self._append_enlisting(topic, batches, wait, name, claim))

    def _append_enlisting(
        self, topic: str, batches: list[tuple[int, bytes]], wait: bool, name: str, claim: Claim
    ) -> Steps[list[Appended | PenstockError]]:
        refused: dict[int, PenstockError] = {}
        for index, (number, data) in enumerate(batches):
            try:
                self._enlist_batch(topic, number, data, name, claim)
            except PenstockError as error:
                refused[index] = error
        kept = [batch for index, batch in enumerate(batches) if index not in refused]
        ledger = self._state.ledger
        is_told = ledger is None or ledger.log.durable >= self._told.get(name, 0)
        after = None if is_told or ledger is None else _durable(ledger.log)
        answers = iter((yield from self._publishing.append_records(topic, kept, wait, after)))
        return [refused[index] if index in refused else next(answers) for index in range(len(batches))]

    def _enlist_batch(self, topic: str, number: int, data: bytes, name: str, claim: Claim) -> None:
        header = read_header(data)
        if not header.attributes & TRANSACTIONAL:
            return
        self._state.topic(topic).partition(number)
        known = self._known(name, header.producer_id, claim)
        now_ms = self._state.clock.wall_ms()
        enlisted = rules.enlist(known, header.producer_id, header.producer_epoch, [(topic, number)], now_ms)
        if enlisted is not known:
            self._put(self._ledger, name, enlisted)

    # The end.

    def end(
        self,
        name: str,
        producer_id: int,
        epoch: int,
        commit: bool,
        claim: Claim = ANYBODY,
        *,
        next_epoch: bool = False,
    ) -> Steps[tuple[int, int]]:
        """Commit or abort, and with ``next_epoch`` end the epoch, too.

        Returns the producer's next id and epoch, when every reader may see the messages.
        """
        known = self._known(name, producer_id, claim)
        if next_epoch:  # Raises if that is not allowed; the returned id is not used.
            rules.end_epoch(known, producer_id, epoch, commit, lambda: 0, known.used_ms)
        else:
            rules.end(known, producer_id, epoch, commit, known.used_ms)
        kept = known.acks
        if commit and known.state == "ongoing":
            yield from self._prepare(name, known, claim)
        known = self._known(name, producer_id, claim)  # Another request may have been first.
        now_ms = self._state.clock.wall_ms()
        if next_epoch:
            new_producer_id = self._state.registry.new_producer_id
            decided = rules.end_epoch(known, producer_id, epoch, commit, new_producer_id, now_ms)
        else:
            decided = rules.end(known, producer_id, epoch, commit, now_ms)
        ledger = self._ledger_of(name)
        if decided.state == "committing" and self._state.transaction_peers is not None:
            if known.acks != kept:  # Acks were added that no owner has reserved yet.
                raise TransactionBusy(state=known.state)
        elif decided.state == "committing" and known.acks:
            try:
                self._acks.hold(known.acks)
            except RequestError:  # A message was delivered to somebody else: the whole transaction is void.
                yield from self._decide(ledger, name, rules.end(known, producer_id, epoch, False, now_ms))
                raise
        if decided is known:
            yield Durable(ledger.log)
        else:
            self._put_decided(ledger, name, known, decided)
            yield from self._finish(ledger, name)
        known = ledger.by_name[name]
        return known.producer_id, known.epoch

    def _put_decided(self, ledger: Ledger, name: str, known: Transaction, decided: Transaction) -> None:
        """Write the decision of a transaction; if that fails, its reserved messages are delivered again."""
        try:
            self._put(ledger, name, decided)
        except BaseException:
            if self._state.transaction_peers is None and ledger.by_name[name] is known:
                self._acks.let_go(known.acks)
            raise

    def _prepare(self, name: str, known: Transaction, claim: Claim) -> Steps[None]:
        """Make everything durable that a commit depends on, before it is decided."""
        peers = self._state.transaction_peers
        if peers is None:
            for log in self._logs(known):
                yield Durable(log)
        elif known.acks:
            ledger, epoch = self._at(log_partition(name))
            yield Durable(ledger.log)  # Its next coordinator has to know its reserved messages.
            decision = Decision(
                known.producer_id, known.epoch, known.number, True, log_partition(name), epoch
            )
            try:
                yield from peers.hold(decision, known.acks)
            except RequestError:  # A message was delivered to somebody else: the whole transaction is void.
                now = self._known(name, known.producer_id, claim)
                if now.state == "ongoing" and now.epoch == known.epoch:
                    now_ms = self._state.clock.wall_ms()
                    aborted = rules.end(now, now.producer_id, now.epoch, False, now_ms)
                    yield from self._decide(self._ledger_of(name), name, aborted)
                raise

    def look(self) -> Steps[None]:
        """The alarm: abort transactions that took too long, and continue unfinished ones.

        One that fails, for example because the disk is full, is retried later and does not delay others.
        """
        if self._error is not None:
            return
        failures: list[PenstockError] = []
        work = [self._close_orphans()]
        for ledger in self._ledgers:
            self._time_out(ledger, failures)
            unfinished = [self._finish(ledger, name) for name in self._unfinished(ledger) - self._running]
            if ledger is self._state.ledger:
                work += unfinished
            else:  # Owners of its partitions may be unavailable: other transactions need not wait for them.
                self._state.jobs += unfinished
        for each in work:
            try:
                yield from each
            except PenstockError as error:
                failures.append(error)
        if self._deadlines:
            now_ms, due_ms = self._state.clock.steady_ms(), min(self._deadlines.values())
            self._state.alarms.set(self, due_ms if due_ms > now_ms else now_ms + RETRY_MS)
        if failures:
            raise failures[0]

    def _time_out(self, ledger: Ledger, failures: list[PenstockError]) -> None:
        """Decide to abort the transactions that have timed out."""
        now_ms = self._state.clock.steady_ms()
        for name in [name for name in ledger.by_name if self._deadlines.get(name, now_ms + 1) <= now_ms]:
            known = ledger.by_name[name]
            if known.state == "ongoing":
                try:
                    self._put(ledger, name, rules.fence(known, self._state.clock.wall_ms()))
                except PenstockError as error:
                    failures.append(error)

    def is_committing(self, name: str, producer_id: int, epoch: int) -> bool:
        """Whether its commit is decided, but not finished."""
        known = self._find(name)
        return known is not None and known.state == "committing" and known.has(producer_id, epoch)

    # Queries of operators.

    def describe(self, name: str) -> TransactionState | None:
        """The state of a transactional id; None if it is unknown."""
        known = self._find(name)
        if known is None:
            return None
        clock, due_ms = self._state.clock, self._deadlines.get(name)
        begun_ms = -1
        if due_ms is not None:
            begun_ms = clock.wall_ms() - (clock.steady_ms() - (due_ms - known.timeout_ms))
        return TransactionState(name=name, known=known, begun_ms=begun_ms)

    def names(self) -> list[str]:
        return sorted(name for ledger in self._ledgers for name in ledger.by_name)

    def producers(self, topic: str, number: int) -> list[ActiveProducer]:
        """The producers that are remembered for a partition."""
        partition = self._state.topic(topic).partition(number)
        opened = partition.log.transactions.open
        named = {producer_id for ledger in self._ledgers for producer_id in ledger.by_producer}
        return [
            ActiveProducer(
                producer_id=producer_id,
                epoch=epoch,
                last_sequence=last_sequence,
                last_ms=last_ms,
                named=producer_id in named or producer_id in opened,
                first_offset=opened.get(producer_id, -1),
            )
            for producer_id, epoch, last_sequence, last_ms, _ in partition.producers.snapshot()
        ]

    @staticmethod
    def _unfinished(ledger: Ledger) -> set[str]:
        return {name for name, known in ledger.by_name.items() if known.is_ending}

    def _find(self, name: str) -> Transaction | None:
        if self._state.transaction_peers is None and self._state.ledger is None:
            return None  # A query does not begin one.
        return self._ledger_of(name).by_name.get(name)

    def _known(self, name: str, producer_id: int, claim: Claim) -> Transaction:
        known = self._find(checked_name(name))
        if known is None:
            raise ProducerUnknown(producer_id=producer_id)
        rules.check_claim(known, name, claim)
        return known

    # Writing.

    def _promise(self, ledger: Ledger, name: str, known: Transaction) -> Steps[None]:
        """Write the new state to the ledger; returns when it is durable."""
        if ledger.by_name.get(name) is not known:
            self._put(ledger, name, known)
        yield Durable(ledger.log)

    def _put(self, ledger: Ledger, name: str, known: Transaction) -> None:
        ledger.put(name, known)
        self._watch(ledger, name, known)

    def _watch(self, ledger: Ledger, name: str, known: Transaction) -> None:
        if known.state != "ongoing":
            self._deadlines.pop(name, None)
            self._told.pop(name, None)
            return
        self._told[name] = ledger.log.written
        if name not in self._deadlines:
            self._deadlines[name] = self._state.clock.steady_ms() + known.timeout_ms
            self._state.alarms.set(self, self._deadlines[name])

    def _decide(self, ledger: Ledger, name: str, decided: Transaction) -> Steps[None]:
        self._put(ledger, name, decided)
        yield from self._finish(ledger, name)

    def _finish(self, ledger: Ledger, name: str) -> Steps[None]:
        """Carry out the remaining steps of a decision."""
        self._running.add(name)
        try:
            yield Durable(ledger.log)
            known = ledger.by_name[name]
            if not known.is_ending:
                return
            if ledger is self._state.ledger:
                yield from self._finish_here(known)
            else:
                yield from self._finish_at_owners(ledger, known, log_partition(name))
            if ledger.by_name[name] is known:  # Otherwise another operation has finished it.
                self._put(ledger, name, rules.finish(known))
                for group, topic, commits in known.committed_offsets():
                    self._commits.release(topic, group, commits)
        finally:
            self._running.discard(name)
            if ledger.by_name[name].is_ending:
                self._state.alarms.set(self, self._state.clock.steady_ms() + RETRY_MS)

    def _finish_here(self, known: Transaction) -> Steps[None]:
        self._mark(known)
        if known.state == "committing":
            yield from self._participants.commit(known.committed_offsets())
            yield from self._acks.settle(known.acks)
        for log in self._logs(known):
            yield Durable(log)

    def _finish_at_owners(self, ledger: Ledger, known: Transaction, number: int) -> Steps[None]:
        peers = self._state.transaction_peers
        current, epoch = self._partitioned.get(number, (None, 0))
        if current is not ledger or peers is None:  # It has moved; or this node is starting.
            raise NotOwner(topic=TRANSACTIONS, partition=number, owner=-1, epoch=epoch)
        commit = known.state == "committing"
        decision = Decision(known.producer_id, known.epoch, known.number, commit, number, epoch)
        commits = list(known.committed_offsets()) if commit else []
        yield from peers.finish(decision, sorted(known.partitions), commits, known.acks)

    def _mark(self, known: Transaction) -> None:
        """Write a marker to every partition that waits for one, even if some fail."""
        failure: PenstockError | None = None
        for target in sorted(known.partitions):
            try:
                for partition in self._enlisted([target]):
                    if known.producer_id in partition.log.transactions.open:
                        self._participants.end_on(
                            partition, known.producer_id, known.epoch, known.state == "committing"
                        )
            except PenstockError as error:
                failure = error
        if failure is not None:
            raise failure

    def _logs(self, known: Transaction) -> list[Log]:
        """The logs to sync, also those of "os": a finished transaction must not be open after a crash."""
        logs = [partition.log for partition in self._enlisted(known.partitions)]
        return [log for log in logs if log.config.durability != "memory"]

    def _enlisted(self, partitions: Iterable[rules.TopicPartition]) -> list[Partition]:
        """The enlisted partitions that still exist."""
        found: list[Partition] = []
        for topic_name, number in sorted(partitions):
            self._state.check_online(topic_name)
            topic = self._state.topics.get(topic_name)
            if topic is not None and number < len(topic.partitions):
                found.append(topic.partitions[number])
        return found

    # Partitions.

    def _partitions(self) -> Iterable[Partition]:
        for topic in self._state.topics.values():
            yield from topic.partitions

    def _close_orphans(self) -> Steps[None]:
        """Abort batches without a transaction, which only a lost or older ledger leaves (X2)."""
        if self._state.transaction_peers is not None:
            return  # The ledger of another node may have it.
        for partition in list(self._partitions()):
            if partition.epoch:
                continue
            for producer_id in list(partition.log.transactions.open):
                ledger = self._state.ledger
                known = None if ledger is None else ledger.of_producer(producer_id)
                enlisted = (partition.topic.name, partition.number)
                if known is not None and not known.is_at_rest and enlisted in known.partitions:
                    continue
                logger.warning("no transaction stands for producer %d on %s:%d", producer_id, *enlisted)
                # Unless its marker was damaged: then it is known how it ended.
                damaged = bool(partition.log.damage.ranges)
                commit = damaged and known is not None and known.state == "committed"
                epoch = 0 if known is None else known.epoch
                self._participants.end_on(partition, producer_id, epoch, commit=commit)
                if partition.log.config.durability != "memory":
                    yield Durable(partition.log)


def _durable(log: Log) -> Callable[[list[Look]], Steps[None]]:
    """Wait until a log is durable, before batches are written to another one."""

    def wait(_: list[Look]) -> Steps[None]:
        yield Durable(log)

    return wait
