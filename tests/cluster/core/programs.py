"""Programs that ask any node, as clients do, and what they may find in the end.

    planners    publish jobs: with a delay, or with a dedup id, and then again until there is an answer
    clerks      take a job, publish entries to several partitions and ack the job, in one transaction
    producers   of Kafka: enlist partitions, append batches, end the transaction
    auditors    read entries

A job is in its topic once, or waits for its time.  Entries of a transaction are all there, once each, and its
job is settled; or none is, and the job is not settled by it.  A program that was told how its transaction
ended was told the truth, and without a commit there are no entries.
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
from penstock.groups.transactions import LOG_PARTITIONS, log_partition
from penstock.model.message import Message
from penstock.types import TRANSACTIONS
from penstock.wire.records import TRANSACTIONAL, BatchBuilder

if TYPE_CHECKING:
    from tests.cluster.core.world import Life, World

JOBS: Final = "jobs"
ENTRIES: Final = "entries"
PARTITIONS: Final = {JOBS: 2, ENTRIES: 3}
PLANNERS: Final = 2
CLERKS: Final = ("clerk-1", "clerk-2", "clerk-3")
PRODUCERS: Final = ("producer-1", "producer-2")
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

    def start(self) -> None:
        spawn = self._world.calm.spawn
        for number in range(PLANNERS):
            spawn(self._plan(number))
        for name in CLERKS:
            spawn(self._work(name, self._book))
        for name in PRODUCERS:
            spawn(self._work(name, self._produce))
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
        begins = self._random.random() < 0.5
        coordinator = TRANSACTIONS, log_partition(name)
        with suppress(*FAILURES):
            await self._ask(lambda node: node.prepare_transactions())
        producer_id, epoch = await self._ask(
            lambda node: node.init_producer(name, TIMEOUT_MS, -1, -1), self._at(*coordinator)
        )
        which = name, producer_id, epoch
        if not begins:
            numbers = transaction.partitions
            await self._ask(lambda node: node.enlist(ENTRIES, numbers, *which), self._at(*coordinator))

        async def append(number: int) -> None:
            batches = [(number, self._batch(transaction.number, producer_id, epoch))]
            [answer] = await self._ask(
                lambda node: node.append_in_transaction(ENTRIES, batches, True, name, begins),
                self._at(ENTRIES, number),
            )
            if isinstance(answer, PenstockError):
                raise answer

        def end(commit: bool) -> Any:
            def operation(node: ClusterOperations) -> Steps[Any]:
                return (node.end_epoch if begins else node.end_transaction)(*which, commit)

            return self._ask(operation, self._at(*coordinator))

        for number in transaction.partitions:
            await append(number)
        if self._random.random() < 0.2:
            await end(False)
        else:
            await self._end(transaction, lambda: end(True))
        if self._random.random() < 0.2:
            await append(self._random.randrange(PARTITIONS[ENTRIES]))

    def _batch(self, number: int, producer_id: int, epoch: int) -> bytes:
        now_ms = self._world.calm.wall_ms()
        builder = BatchBuilder()
        builder.add(None, b"%d" % number, [])
        return bytes(builder.build(now_ms, now_ms, TRANSACTIONAL, producer_id, epoch, 0))

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
        found = TRANSACTIONS in self._world.state().topics
        return [(TRANSACTIONS, number) for number in range(LOG_PARTITIONS if found else 0)]

    def _broker(self, key: Key) -> RealBroker | None:
        life = self._world.server(key)
        return None if life is None else life.broker  # type: ignore[return-value]

    def are_whole(self) -> bool:
        """Every partition is served, and nothing is under way any more."""
        brokers = {key: self._broker(key) for key in self._keys()}
        return all(map(self._broker, self._coordinators())) and all(
            broker is not None and broker.is_cached(key) and not broker.is_undecided(key)
            for key, broker in brokers.items()
        )

    def check(self) -> None:
        brokers: dict[Key, RealBroker] = {}
        for key in [*self._coordinators(), *self._keys()]:
            broker = self._broker(key)
            if broker is None:
                raise Violation(f"{key} is served by nobody")
            if key[0] in PARTITIONS and broker.is_undecided(key):
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
        for each in self._transactions:
            found = {number: count[each.number] for number, count in entries.items() if count[each.number]}
            is_there = each.committed if each.committed is not None else bool(found)
            if found != (dict.fromkeys(sorted(each.partitions), 1) if is_there else {}):
                raise Violation(f"{each} has these entries: {found}")
            if is_there and each.job is not None:
                if each.job not in settled:
                    raise Violation(f"{each} is there, and its job is not settled")
                settled[each.job] += 1
        for (number, offset), count in settled.items():
            if count != 1:
                raise Violation(
                    f"{JOBS}:{number} has a job at {offset} that {count} transactions have settled"
                )
