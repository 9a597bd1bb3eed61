"""Programs that ask any node, as clients do, and what they may find in the end.

    planners    publish jobs: with a delay, or with a dedup id, and then again until there is an answer
    clerks      take a job, publish entries to several partitions and ack the job, in one transaction
    producers   of Kafka: enlist partitions, append batches, end the transaction
    copiers     of Kafka: read the offset of a group, append batches, and commit the next offset with them
    tasks       stage batches and publish them as one version, the same version again if nobody answers
    auditors    read entries

A job is in its topic once, or waits for its time.  Entries of a transaction are all there, once each, and its
job is settled; or none is, and the job is not settled by it.  A program that was told how its transaction
ended was told the truth, and without a commit there are no entries.  From each offset of a group one
transaction that is there has gone on to the next, and each version is published by one task.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.core.model import Rejected
from tests.cluster.core.real import GROUP, RealBroker
from tests.cluster.core.virtual import Violation

from penstock.broker.steps import Steps
from penstock.cluster.core.metadata import Key
from penstock.cluster.routing.operations import ClusterOperations
from penstock.errors import PenstockError, TransactionAborted
from penstock.groups.commits import Commit
from penstock.groups.rebalance import Committer
from penstock.groups.transactions import LOG_PARTITIONS, log_partition
from penstock.model.message import Message
from penstock.types import TRANSACTIONS
from penstock.wire.records import TRANSACTIONAL, BatchBuilder
from penstock.wire.staged import STAGING, encode_staged

if TYPE_CHECKING:
    from tests.cluster.core.world import Life, World

JOBS: Final = "jobs"
ENTRIES: Final = "entries"
PARTITIONS: Final = {JOBS: 2, ENTRIES: 3}
PLANNERS: Final = 2
CLERKS: Final = ("clerk-1", "clerk-2", "clerk-3")
PRODUCERS: Final = ("producer-1", "producer-2")
COPIERS: Final = ("copier-1", "copier-2", "copier-3")
COPIES: Final = "copies"  # Their group.
TASKS: Final = ("task-1", "task-2")  # Each is an application.
ANSWER_S: Final = 5.0
TIMEOUT_MS: Final = 4000  # Of a transaction.
TRIES: Final = 8
FAILURES: Final = (PenstockError, Rejected, TimeoutError)

Operation = Callable[[ClusterOperations], Steps[Any]]


@dataclass(eq=False, slots=True)
class Transaction:
    number: int
    partitions: list[int]
    job: tuple[int, int] | None = None  # Partition and offset.
    copied: tuple[int, int] | None = None  # The same, of a group: the transaction commits the next one.
    version: tuple[str, int] | None = None  # Of an application; then it is a staged publish.
    committed: bool | None = False  # As its program knows; None: it does not know.


class Programs:
    """Those of one simulated cluster."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = world.random
        self._accepted: set[int] = set()  # Jobs.
        self._due: dict[int, int] = {}  # Not before, if no clock jumps.
        self._transactions: list[Transaction] = []
        self._seen: dict[tuple[int, int], int] = {}  # Entries, by partition and offset.
        self._assigned: set[int] = set()  # Partitions of jobs that a copier has.
        self.published: set[tuple[str, int]] = set()  # Versions, as their tasks know.

    def start(self) -> None:
        spawn = self._world.calm.spawn
        for number in range(PLANNERS):
            spawn(self._plan(number))
        for name in CLERKS:
            spawn(self._work(name, self._book))
        for name in PRODUCERS:
            spawn(self._work(name, self._produce))
        for name in COPIERS:
            spawn(self._work(name, self._copy))
        for name in TASKS:
            spawn(self._work(name, Task(self).publish))
        spawn(self._audit())

    @property
    def outcomes(self) -> Counter[str]:
        words = {True: "committed", False: "aborted", None: "unknown"}
        found = Counter(f"{words[each.committed]} transactions" for each in self._transactions)
        return found + Counter({"jobs": len(self._accepted), "entries seen": len(self._seen)})

    # Asking.

    async def _ask(self, operation: Operation, life: "Life | None" = None) -> Any:
        """Have a node do something; any node, unless one is named."""
        asked = life or self._random.choice(list(self._world.lives.values()))
        broker = asked.broker
        assert isinstance(broker, RealBroker)
        return await self._world.ask(asked, lambda: broker.operate(operation), answer_s=ANSWER_S)

    def _at(self, topic: str, number: int) -> "Life":
        """The owner, for a client of Kafka, which knows where to send its requests."""
        found = self._world.owner((topic, number))
        if found is None:
            raise Rejected
        return found

    async def _pause(self, each_second: float) -> bool:
        """Wait for a moment, and until there are topics; False: it is time to stop."""
        await asyncio.sleep(self._random.expovariate(each_second))
        await self._world.created.wait()
        return self._world.simulation.now < self._world.seconds + 5

    # Jobs.

    async def _plan(self, planner: int) -> None:
        job = planner * 10**6
        while await self._pause(1.5):
            job += 1
            with suppress(*FAILURES):
                await (self._delay(job) if self._random.random() < 0.5 else self._publish_once(job))

    async def _delay(self, job: int) -> None:
        delay_ms = self._random.choice((200, 1000, 5000))
        partition = self._random.randrange(PARTITIONS[JOBS])
        self._due[job] = self._world.calm.steady_ms() + delay_ms
        await self._accept(job, Message(b"%d" % job, delay=f"{delay_ms}ms", partition=partition))

    async def _publish_once(self, job: int) -> None:
        """Who gets no answer, or an error, publishes it again: its dedup id is known then."""
        for _ in range(TRIES):
            try:
                await self._accept(job, Message(b"%d" % job, dedup_id=f"job {job}"))
            except FAILURES:
                await self._pause(4)
            else:
                return

    async def _accept(self, job: int, message: Message) -> None:
        """What a node has acknowledged counts, also if the client has given up."""

        def publish(node: ClusterOperations) -> Steps[None]:
            yield from node.publish_batch(JOBS, [message])
            self._accepted.add(job)

        await self._ask(publish)

    async def _take_job(self) -> tuple[tuple[int, int, int, int], int] | None:
        """A lease on a job, and its offset."""
        number = self._random.randrange(PARTITIONS[JOBS])
        owner = self._at(JOBS, number)
        found = await self._world.ask(owner, lambda: owner.broker.deliver((JOBS, number)))
        return None if found is None else (found[0], found[1])

    # Transactions.

    async def _work(self, name: str, transact: Callable[[str, Transaction], Any]) -> None:
        while await self._pause(1.5):
            numbers = self._random.sample(range(PARTITIONS[ENTRIES]), self._random.choice((1, 2, 3)))
            transaction = Transaction(len(self._transactions), numbers)
            self._transactions.append(transaction)
            with suppress(*FAILURES):
                await transact(name, transaction)

    async def _book(self, name: str, transaction: Transaction) -> None:
        """As our own clients and programs that use HTTP do, each request to another node."""
        opened = await self._ask(lambda node: node.begin_transaction(name, f"{TIMEOUT_MS}ms"))
        which = name, opened.producer_id, opened.epoch

        def publish(numbers: list[int]) -> Any:
            entries = [Message(b"%d" % transaction.number, partition=each) for each in numbers]
            return self._ask(lambda node: node.publish_in_transaction(ENTRIES, entries, *which))

        try:
            await publish(transaction.partitions)
            found = await self._take_job()
            if found is not None:
                receipt, offset = found
                await self._ask(lambda node: node.ack_in_transaction(JOBS, GROUP, [receipt], *which))
                transaction.job = receipt[0], offset
            await asyncio.sleep(self._random.choice((0, 0, 0, 2)))  # Then somebody else may get the job.
        except FAILURES:
            with suppress(*FAILURES):
                await self._ask(lambda node: node.abort_transaction(*which))
            return
        if self._random.random() < 0.2:
            await self._ask(lambda node: node.abort_transaction(*which))
        else:
            await self._end(transaction, lambda: self._ask(lambda node: node.commit_transaction(*which)))
        if self._random.random() < 0.2:  # A request that was late.
            await publish([self._random.randrange(PARTITIONS[ENTRIES])])

    async def _produce(self, name: str, transaction: Transaction) -> None:
        """As clients of Kafka do: they know the coordinator and the owners, and verify or begin (KIP-890)."""
        producer = await self._begin(name, transaction)
        for number in transaction.partitions:
            await producer.append(number)
        await self._conclude(producer, transaction)
        if self._random.random() < 0.2:
            await producer.append(self._random.randrange(PARTITIONS[ENTRIES]))

    async def _begin(self, name: str, transaction: Transaction) -> "KafkaProducer":
        with suppress(*FAILURES):
            await self._ask(lambda node: node.prepare_transactions())
        begins = self._random.random() < 0.5
        producer = KafkaProducer(self, name, transaction.number, begins, *await self._new_epoch(name))
        if not begins:
            await producer.enlist(transaction.partitions)
        return producer

    async def _new_epoch(self, name: str) -> tuple[int, int]:
        """The producer's id and epoch; what it has under way is aborted."""
        found: tuple[int, int] = await self._ask(
            lambda node: node.init_producer(name, TIMEOUT_MS, -1, -1),
            self._at(TRANSACTIONS, log_partition(name)),
        )
        return found

    async def _conclude(self, producer: "KafkaProducer", transaction: Transaction) -> None:
        if self._random.random() < 0.2:
            await producer.end(commit=False)
        else:
            await self._end(transaction, lambda: producer.end(commit=True))

    # Offsets of a group.

    async def _copy(self, name: str, transaction: Transaction) -> None:
        """As the one member of a group that has a partition.

        The next one may have it as soon as this one sends no offsets any more, also if nobody knows how its
        transaction has ended: that is what stable offsets are for.
        """
        number = self._random.randrange(PARTITIONS[JOBS])
        if number in self._assigned:
            return
        self._assigned.add(number)
        try:
            producer = await self._begin(name, transaction)
            transaction.copied = number, await self._stable_offset(number)
            for each in transaction.partitions:
                await producer.append(each)
            await self._commit_offset(producer, number, transaction.copied[1] + 1)
        except FAILURES:
            await self._fence(name)
            self._assigned.discard(number)
            raise
        self._assigned.discard(number)
        await asyncio.sleep(self._random.choice((0, 0.5, 1)))
        await self._conclude(producer, transaction)

    async def _fence(self, name: str) -> None:
        """Until then a request that was late might still add offsets."""
        while await self._pause(4):
            with suppress(*FAILURES):
                await self._new_epoch(name)
                return
        await asyncio.sleep(3600)  # It is too late: nobody gets the partition any more.

    def _coordinator(self) -> "Life":
        """A node that believes to coordinate the group."""
        lives = [
            life
            for life in self._world.lives.values()
            if isinstance(life.broker, RealBroker) and life.broker.coordinates(COPIES) is not None
        ]
        if not lives:
            raise Rejected
        return self._random.choice(lives)

    async def _stable_offset(self, number: int) -> int:
        """As OffsetFetch finds it."""
        life = self._coordinator()
        if await self._ask(lambda node: node.unsettled_offsets(JOBS, COPIES, [number]), life):
            raise Rejected
        commits = await self._ask(lambda node: node.committed_offsets(JOBS, COPIES), life)
        offset = commits[number].offset if number in commits else 0
        if not await self._ask(lambda node: node.read(JOBS, number, offset, None, None, 1)):
            raise Rejected  # There is nothing to copy.
        return offset

    async def _commit_offset(self, producer: "KafkaProducer", number: int, offset: int) -> None:
        if not producer.begins:
            await producer.enlist_group()
        commits, by = {number: Commit(offset)}, Committer(transactional=True)
        if await self._ask(
            lambda node: node.enlist_commits(JOBS, COPIES, commits, *producer.which, by, producer.begins),
            self._coordinator(),
        ):
            raise Rejected

    async def _end(self, transaction: Transaction, commit: Callable[[], Any]) -> None:
        transaction.committed = None
        for _ in range(TRIES):
            try:
                await commit()
            except TransactionAborted:
                transaction.committed = False
                return
            except FAILURES:
                await self._pause(4)
            else:
                transaction.committed = True
                return

    def batch(self, number: int, attributes: int = 0, *numbers: int) -> bytes:
        """The entry of a transaction, with the numbers of its producer."""
        now_ms = self._world.calm.wall_ms() if attributes else 0
        builder = BatchBuilder()
        builder.add(None, b"%d" % number, [])
        return bytes(builder.build(now_ms, now_ms, attributes, *numbers))

    async def _audit(self) -> None:
        while await self._pause(4):
            number, offset = self._random.randrange(PARTITIONS[ENTRIES]), self._random.randrange(20)
            with suppress(*FAILURES):
                found = await self._ask(
                    lambda node, at=(number, offset): node.read(ENTRIES, *at, None, None, 5)  # type: ignore[misc]
                )
                for each in found:
                    self._see(each.partition, each.offset, int(each.value))

    def _see(self, partition: int, offset: int, number: int) -> None:
        before = self._seen.setdefault((partition, offset), number)
        if before != number:
            raise Violation(f"{ENTRIES}:{partition} had {before} at {offset}, and now {number}")

    # The end.

    def _keys(self) -> list[Key]:
        return [(topic, number) for topic, count in PARTITIONS.items() for number in range(count)]

    def _coordinators(self) -> list[Key]:
        topics = self._world.state().topics
        ledgers = range(LOG_PARTITIONS if TRANSACTIONS in topics else 0)
        return [(TRANSACTIONS, number) for number in ledgers] + [(STAGING, 0)] * (STAGING in topics)

    def _broker(self, key: Key) -> RealBroker | None:
        life = self._world.server(key)
        return None if life is None else life.broker  # type: ignore[return-value]

    def are_whole(self) -> bool:
        """Every partition is served, and nothing is under way any more."""
        brokers = {key: self._broker(key) for key in self._keys()}
        coordinators = map(self._broker, self._coordinators())
        return all(broker is not None and not broker.is_ending() for broker in coordinators) and all(
            broker is not None and broker.is_cached(key) and not broker.is_undecided(key)
            for key, broker in brokers.items()
        )

    def check(self) -> None:
        brokers: dict[Key, RealBroker] = {}
        for key in [*self._coordinators(), *self._keys()]:
            broker = self._broker(key)
            if broker is None:
                raise Violation(f"{key} is served by nobody")
            if broker.is_ending() or (key[0] in PARTITIONS and broker.is_undecided(key)):
                raise Violation(f"{key}: something is never decided")
            brokers[key] = broker
        self._check_jobs({key: each for key, each in brokers.items() if key[0] == JOBS})
        self._check_transactions(brokers)

    def _check_jobs(self, brokers: dict[Key, RealBroker]) -> None:
        found = Counter[int]()
        for key, broker in brokers.items():
            found.update([*broker.messages(key), *broker.waiting(key)])
            for job, time_ms in broker.times(key):
                if not self._world.faults["clock"] and time_ms < self._due.get(job, 0):
                    raise Violation(f"{key}: job {job} was due at {self._due[job]}, and came at {time_ms}")
        for job in self._accepted | found.keys():
            if found[job] != 1:
                raise Violation(f"job {job} is there {found[job]} times, {job in self._accepted}")

    def _check_transactions(self, brokers: dict[Key, RealBroker]) -> None:
        logs = {
            number: dict(brokers[ENTRIES, number].placed(ENTRIES, number))
            for number in range(PARTITIONS[ENTRIES])
        }
        settled = {
            (number, offset): 0
            for number in range(PARTITIONS[JOBS])
            for offset in brokers[JOBS, number].settled((JOBS, number))
        }
        for (number, offset), entry in self._seen.items():
            if logs[number].get(offset) != entry:
                raise Violation(
                    f"{ENTRIES}:{number} had {entry} at {offset}, and now {logs[number].get(offset)}"
                )
        entries = {number: Counter(log.values()) for number, log in logs.items()}
        there: list[Transaction] = []
        for each in self._transactions:
            found = {number: count[each.number] for number, count in entries.items() if count[each.number]}
            is_there = each.committed if each.committed is not None else bool(found)
            if found != (dict.fromkeys(sorted(each.partitions), 1) if is_there else {}):
                raise Violation(f"{each} has these entries: {found}")
            if is_there and each.job is not None:
                if each.job not in settled:
                    raise Violation(f"{each} is there, and its job is not settled")
                settled[each.job] += 1
            there += [each] * is_there
        self._check_copies(brokers, there)
        for (number, offset), count in settled.items():
            if count != 1:
                raise Violation(
                    f"{JOBS}:{number} has a job at {offset} that {count} transactions have settled"
                )

    def _check_copies(self, brokers: dict[Key, RealBroker], there: list[Transaction]) -> None:
        """What the transactions that are there have copied and published."""
        versions = Counter(each.version for each in there if each.version is not None)
        for version in self.published | versions.keys():
            if versions[version] != 1:
                raise Violation(f"version {version} is there {versions[version]} times")
        for number in range(PARTITIONS[JOBS]):
            offsets = sorted(each.copied[1] for each in there if each.copied and each.copied[0] == number)
            end = brokers[JOBS, number].committed((JOBS, number), COPIES)
            if offsets != list(range(end)):
                raise Violation(f"{JOBS}:{number}: {end} is committed, and {offsets} were copied")


class KafkaProducer:
    """One transaction of a client of Kafka."""

    def __init__(
        self, programs: Programs, name: str, number: int, begins: bool, producer_id: int, epoch: int
    ) -> None:
        self.begins = begins  # With what it writes first (KIP-890); else it says before what it will write.
        self.which = name, producer_id, epoch
        self._programs = programs
        self._number = number
        self._coordinator = TRANSACTIONS, log_partition(name)

    async def _coordinate(self, operation: Operation) -> Any:
        return await self._programs._ask(operation, self._programs._at(*self._coordinator))

    async def enlist(self, numbers: list[int]) -> None:
        await self._coordinate(lambda node: node.enlist(ENTRIES, numbers, *self.which))

    async def enlist_group(self) -> None:
        await self._coordinate(lambda node: node.enlist_group(*self.which, COPIES))

    async def append(self, number: int) -> None:
        name, *producer = self.which
        batches = [(number, self._programs.batch(self._number, TRANSACTIONAL, *producer, 0))]
        [answer] = await self._programs._ask(
            lambda node: node.append_in_transaction(ENTRIES, batches, True, name, self.begins),
            self._programs._at(ENTRIES, number),
        )
        if isinstance(answer, PenstockError):
            raise answer

    async def end(self, *, commit: bool) -> None:
        def operation(node: ClusterOperations) -> Steps[Any]:
            return (node.end_epoch if self.begins else node.end_transaction)(*self.which, commit)

        await self._coordinate(operation)


class Task:
    """The versions of one application, which are published one after the other."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._version = 0
        self._is_published = True

    async def publish(self, name: str, transaction: Transaction) -> None:
        """The next version; or the last one once more, as a job that begins again, if nobody has answered."""
        programs = self._programs
        self._version += self._is_published or programs._random.random() < 0.5
        self._is_published = False
        version = transaction.version = name, self._version
        token = f"{name}-{transaction.number}"
        parts = [(number, programs.batch(transaction.number)) for number in transaction.partitions]
        first = await programs._ask(lambda node: node.stage(ENTRIES, encode_staged(token, parts)))
        staged = {token: [(first, first + len(parts))]}
        transaction.committed = None
        for _ in range(TRIES):
            try:
                done = await programs._ask(lambda node: node.publish_staged(ENTRIES, *version, staged))
            except FAILURES:
                await programs._pause(4)
            else:
                self._is_published = True
                programs.published.add(version)
                if not done.duplicate:  # Else the node may have asked twice, or an earlier job was first.
                    transaction.committed = True
                return
