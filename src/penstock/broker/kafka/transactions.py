"""Transactions: messages to many partitions and committed offsets of groups, applied together or not at all.

    init_producer      a producer id and an epoch for a transactional id; fences the previous producer
    enlist             the transaction writes to these partitions            then the producer appends batches
    append             ... and these are the batches                         both in one, in version 2
    enlist_group       ... and commits offsets of this group
    enlist_commits     ... namely these                                      which take effect at the end
    end                1  what was written is synced, whatever the topics promise
                       2  the decision is written to the ledger and synced   the commit point
                       3  a marker to each partition, committed offsets to the groups
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
for ever.
"""

import logging
from collections.abc import Iterable
from typing import Final

from penstock.broker.journal.ledger import Ledger
from penstock.broker.kafka.coordination import Coordination
from penstock.broker.publish.publishing import Appended, Publishing
from penstock.broker.state import Partition, State
from penstock.broker.steps import Durable, Steps
from penstock.broker.stream.commits import Commits, check_commit
from penstock.config.broker import DAY_MS
from penstock.errors import (
    CorruptionError,
    LimitReached,
    NotInCluster,
    PenstockError,
    ProducerUnknown,
    RequestError,
)
from penstock.groups import transactions as rules
from penstock.groups.commits import Commit
from penstock.groups.rebalance import Committer
from penstock.groups.transactions import (
    ANYBODY,
    TIMEOUT_MS_MAX,
    ActiveProducer,
    Claim,
    Transaction,
    TransactionState,
    checked_name,
)
from penstock.log.log import Log
from penstock.types import whole_number
from penstock.wire.kafka.codes import Code
from penstock.wire.records import TRANSACTIONAL, read_header

logger = logging.getLogger("penstock")

RETRY_MS: Final = 1000  # What could not be finished is tried again after this.
EXPIRY_MS: Final = 7 * DAY_MS  # As Kafka's: an id that was not used for so long is forgotten.


class Transactions:
    """The coordinator of all transactions."""

    def __init__(
        self,
        state: State,
        publishing: Publishing,
        commits: Commits,
        coordination: Coordination,
    ) -> None:
        self._state = state
        self._publishing = publishing
        self._commits = commits
        self._coordination = coordination
        self._directory = f"{state.directory}/transactions"
        self._deadlines: dict[str, int] = {}  # Of those that are ongoing, by the steady clock.
        self._running: set[str] = set()  # Those that somebody is finishing.
        self._told: dict[str, int] = {}  # Of those that are ongoing: how long the ledger was when it knew.
        self._error: PenstockError | None = None  # Why the ledger cannot be read.
        self.alarm_ms = -1

    # Life.

    def open(self) -> None:
        """The topics are open: know what was under way, and go on with it."""
        if self._state.files.exists(self._directory) and self._is_readable():
            for name, known in self._ledger.by_name.items():
                self._watch(name, known)
                for group, topic, commits in known.committed_offsets():
                    self._commits.hold(topic, group, commits)
        if any(partition.log.transactions.open for partition in self._partitions()) or self._unfinished():
            self._state.jobs.append(self.look())

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
        """Begun with the first transactional id."""
        if self._error is not None:
            raise self._error
        if self._state.ledger is None:
            if self._state.files.cache:
                raise NotInCluster(what="Kafka transactions")
            durability = "memory" if self._state.in_memory else "fsync"
            self._state.ledger = Ledger(self._state.files, self._directory, durability, self._state.clock)
            self._state.watch(self._state.ledger.log, "ledger of transactions")
        return self._state.ledger

    def forget_idle(self) -> None:
        """Forget the ids that nobody has used for long."""
        if self._state.ledger is None:
            return
        horizon_ms = self._state.aging_ms() - EXPIRY_MS
        for name, known in list(self._ledger.by_name.items()):
            if known.used_ms > horizon_ms:
                return  # The oldest come first.
            if known.is_at_rest:
                self._ledger.forget(name)

    # Producers.

    def init_producer(
        self, name: str | None, timeout_ms: int, producer_id: int, epoch: int, claim: Claim = ANYBODY
    ) -> Steps[tuple[int, int]]:
        """Id and epoch for a producer: a new id, or if it has a name the next epoch of that.

        ``producer_id`` and ``epoch`` are those it has, or -1.
        """
        if name is None:
            return self._state.registry.new_producer_id(), 0
        checked_name(name)
        whole_number("timeout_ms", timeout_ms, 1, TIMEOUT_MS_MAX)
        owner = (producer_id, epoch) if producer_id >= 0 else None
        ledger = self._ledger
        known = ledger.by_name.get(name)
        if known is not None:
            rules.check_claim(known, name, claim)
        else:
            self._check_limit(ledger)
        while known is not None and known.state == "ongoing":
            rules.check_owner(known, owner)
            yield from self._decide(name, rules.fence(known, self._state.clock.wall_ms()))
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
        yield from self._promise(name, fresh)
        return fresh.producer_id, fresh.epoch

    def _check_limit(self, ledger: Ledger) -> None:
        limit = self._state.config.transactional_ids_max
        if len(ledger.by_name) >= limit:
            raise LimitReached(what="transactional ids", limit=limit, setting="transactional_ids_max")

    # What belongs to a transaction.

    def enlist(
        self, topic: str, numbers: list[int], name: str, producer_id: int, epoch: int, claim: Claim = ANYBODY
    ) -> Steps[None]:
        """The transaction writes to these partitions of a topic."""
        for number in numbers:
            self._state.topic(topic).partition(number)
        known, now_ms = self._known(name, producer_id, claim), self._state.clock.wall_ms()
        partitions = [(topic, number) for number in numbers]
        yield from self._promise(name, rules.enlist(known, producer_id, epoch, partitions, now_ms))

    def enlist_group(
        self, name: str, producer_id: int, epoch: int, group: str, claim: Claim = ANYBODY
    ) -> Steps[None]:
        """The transaction commits offsets of a group."""
        known, now_ms = self._known(name, producer_id, claim), self._state.clock.wall_ms()
        yield from self._promise(name, rules.enlist_group(known, producer_id, epoch, group, now_ms))

    def enlist_commits(
        self,
        topic: str,
        group: str,
        commits: dict[int, Commit],
        name: str,
        producer_id: int,
        epoch: int,
        by: Committer,
        claim: Claim = ANYBODY,
    ) -> Steps[Code]:
        """Stage committed offsets of a group in the transaction, after checking the member."""
        for number, commit in commits.items():
            self._state.topic(topic).partition(number)
            check_commit(commit)
        self._commits.check_kind(topic, group)
        refusal = self._coordination.check(group, by)
        if refusal:
            return refusal
        known, now_ms = self._known(name, producer_id, claim), self._state.clock.wall_ms()
        told = rules.enlist_commits(known, producer_id, epoch, group, {topic: commits}, now_ms)
        self._put(name, told)
        before = known.groups[group].commits.get(topic, {})
        self._commits.hold(topic, group, commits.keys() - before.keys())
        yield Durable(self._ledger.log)
        return Code.NONE

    def append(
        self, topic: str, batches: list[tuple[int, bytes]], wait: bool, name: str, claim: Claim = ANYBODY
    ) -> Steps[list[Appended | PenstockError]]:
        """Append batches, whose partitions belong to the transaction from then on; one answer each.

        They are written when the ledger has that on disk (X2).
        """
        refused: dict[int, PenstockError] = {}
        for index, (number, data) in enumerate(batches):
            try:
                self._enlist_batch(topic, number, data, name, claim)
            except PenstockError as error:
                refused[index] = error
        kept = [batch for index, batch in enumerate(batches) if index not in refused]
        after: Log | None = None
        if self._state.ledger is not None and self._ledger.log.durable < self._told.get(name, 0):
            after = self._ledger.log
        answers = iter((yield from self._publishing.append_records(topic, kept, wait, after)))
        return [refused[index] if index in refused else next(answers) for index in range(len(batches))]

    def _enlist_batch(self, topic: str, number: int, data: bytes, name: str, claim: Claim) -> None:
        header = read_header(data)
        if not header.attributes & TRANSACTIONAL:
            return
        self._state.topic(topic).partition(number)
        known = self._known(name, header.producer_id, claim)
        now_ms = self._state.clock.wall_ms()
        told = rules.enlist(known, header.producer_id, header.producer_epoch, [(topic, number)], now_ms)
        if told is not known:
            self._put(name, told)

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

        The answer is the producer's id and epoch from then on; it comes when everybody may see the messages.
        """
        known = self._known(name, producer_id, claim)
        if next_epoch:  # Raises, if it may not; the id that it would get is not used.
            rules.end_epoch(known, producer_id, epoch, commit, lambda: 0, known.used_ms)
        else:
            rules.end(known, producer_id, epoch, commit, known.used_ms)
        for log in self._logs(known) if commit else ():
            yield Durable(log)
        known = self._known(name, producer_id, claim)  # Somebody may have been quicker.
        now_ms = self._state.clock.wall_ms()
        if next_epoch:
            new_producer_id = self._state.registry.new_producer_id
            decided = rules.end_epoch(known, producer_id, epoch, commit, new_producer_id, now_ms)
        else:
            decided = rules.end(known, producer_id, epoch, commit, now_ms)
        if decided is known:
            yield Durable(self._ledger.log)
        else:
            yield from self._decide(name, decided)
        known = self._ledger.by_name[name]
        return known.producer_id, known.epoch

    def look(self) -> Steps[None]:
        """The alarm rang: abort what took too long, go on with what is not finished."""
        if self._error is not None:
            return
        yield from self._close_orphans()
        now_ms = self._state.clock.steady_ms()
        for name in [name for name, due_ms in self._deadlines.items() if due_ms <= now_ms]:
            known = self._ledger.by_name[name]
            if known.state == "ongoing":
                self._put(name, rules.fence(known, self._state.clock.wall_ms()))
        for name in self._unfinished() - self._running:
            yield from self._finish(name)
        if self._deadlines:
            self._state.alarms.set(self, min(self._deadlines.values()))

    # What operators ask.

    def describe(self, name: str) -> TransactionState | None:
        """What is known of a transactional id; None if it is unknown."""
        known = None if self._state.ledger is None else self._ledger.by_name.get(name)
        if known is None:
            return None
        clock, due_ms = self._state.clock, self._deadlines.get(name)
        begun_ms = -1
        if due_ms is not None:
            begun_ms = clock.wall_ms() - (clock.steady_ms() - (due_ms - known.timeout_ms))
        return TransactionState(name=name, known=known, begun_ms=begun_ms)

    def names(self) -> list[str]:
        return [] if self._state.ledger is None else sorted(self._ledger.by_name)

    def producers(self, topic: str, number: int) -> list[ActiveProducer]:
        """Who has written to a partition under numbers, as far as it is remembered."""
        partition = self._state.topic(topic).partition(number)
        ledger, opened = self._state.ledger, partition.log.transactions.open
        return [
            ActiveProducer(
                producer_id=producer_id,
                epoch=epoch,
                last_sequence=last_sequence,
                last_ms=last_ms,
                named=ledger is not None and ledger.of_producer(producer_id) is not None,
                first_offset=opened.get(producer_id, -1),
            )
            for producer_id, epoch, last_sequence, last_ms, _ in partition.producers.snapshot()
        ]

    def _unfinished(self) -> set[str]:
        if self._state.ledger is None:
            return set()
        return {name for name, known in self._ledger.by_name.items() if known.is_ending}

    def _known(self, name: str, producer_id: int, claim: Claim) -> Transaction:
        checked_name(name)
        known = None if self._state.ledger is None else self._ledger.by_name.get(name)
        if known is None:
            raise ProducerUnknown(producer_id=producer_id)
        rules.check_claim(known, name, claim)
        return known

    # Writing down.

    def _promise(self, name: str, known: Transaction) -> Steps[None]:
        """Answer when it is durable."""
        if self._ledger.by_name.get(name) is not known:
            self._put(name, known)
        yield Durable(self._ledger.log)

    def _put(self, name: str, known: Transaction) -> None:
        self._ledger.put(name, known)
        self._watch(name, known)

    def _watch(self, name: str, known: Transaction) -> None:
        if known.state != "ongoing":
            self._deadlines.pop(name, None)
            self._told.pop(name, None)
            return
        self._told[name] = self._ledger.log.written
        if name not in self._deadlines:
            self._deadlines[name] = self._state.clock.steady_ms() + known.timeout_ms
            self._state.alarms.set(self, self._deadlines[name])

    def _decide(self, name: str, decided: Transaction) -> Steps[None]:
        self._put(name, decided)
        yield from self._finish(name)

    def _finish(self, name: str) -> Steps[None]:
        """From the commit point on: do what is decided, as far as it is not done."""
        self._running.add(name)
        try:
            yield Durable(self._ledger.log)
            known = self._ledger.by_name[name]
            self._mark(known)
            if known.state == "committing":
                yield from self._commit(known)
            for log in self._logs(known):
                yield Durable(log)
            self._put(name, rules.finish(known))
            for group, topic, commits in known.committed_offsets():
                self._commits.release(topic, group, commits)
        finally:
            self._running.discard(name)
            if self._ledger.by_name[name].is_ending:
                self._state.alarms.set(self, self._state.clock.steady_ms() + RETRY_MS)

    def _mark(self, known: Transaction) -> None:
        """A marker to every partition that waits for one; one that fails does not keep the others from it."""
        failure: PenstockError | None = None
        for place in sorted(known.partitions):
            try:
                for partition in self._enlisted([place]):
                    if known.producer_id in partition.log.transactions.open:
                        self._end_on(partition, known.producer_id, known.epoch, known.state == "committing")
            except PenstockError as error:
                failure = error
        if failure is not None:
            raise failure

    def _logs(self, known: Transaction) -> list[Log]:
        """What is to be synced; also of "os": what is finished must not be open after a crash."""
        logs = [partition.log for partition in self._enlisted(known.partitions)]
        return [log for log in logs if log.config.durability != "memory"]

    def _enlisted(self, partitions: Iterable[rules.TopicPartition]) -> list[Partition]:
        """Those that are still there; a topic that was deleted needs nothing any more."""
        found: list[Partition] = []
        for topic_name, number in sorted(partitions):
            self._state.check_online(topic_name)
            topic = self._state.topics.get(topic_name)
            if topic is not None and number < len(topic.partitions):
                found.append(topic.partitions[number])
        return found

    def _end_on(self, partition: Partition, producer_id: int, epoch: int, commit: bool) -> None:
        now_ms = self._state.clock.wall_ms()
        partition.log.end_transaction(producer_id, epoch, commit, now_ms)
        partition.producers.end_epoch(producer_id, epoch, now_ms)
        self._publishing.appended(partition, 0)

    def _commit(self, known: Transaction) -> Steps[None]:
        """Commit its offsets; one that cannot be set (its topic or group is gone) is logged and skipped."""
        for group, topic, commits in known.committed_offsets():
            try:
                yield from self._commits.commit(topic, group, commits)
            except RequestError as error:
                logger.warning(
                    "a transaction could not commit an offset of group %s on %s: %s", group, topic, error
                )

    # Partitions.

    def _partitions(self) -> Iterable[Partition]:
        for topic in self._state.topics.values():
            yield from topic.partitions

    def _close_orphans(self) -> Steps[None]:
        """Abort what no transaction stands for: only a lost or older ledger leaves that (X2)."""
        for partition in list(self._partitions()):
            if partition.epoch:
                continue  # In a cluster the ledger of another node may stand for it.
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
                self._end_on(partition, producer_id, 0 if known is None else known.epoch, commit=commit)
                if partition.log.config.durability != "memory":
                    yield Durable(partition.log)
