"""What was restored into a log stays there, although its owner is lost right after the answer."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

import msgspec
import pytest
from tests.cluster.core.connections import Network
from tests.cluster.core.real import RealBroker
from tests.cluster.core.test_regressions import SlowObjects, in_virtual_time
from tests.cluster.core.virtual import Process

from penstock.broker.operations import LocalOperations
from penstock.broker.steps import Steps
from penstock.cluster.core.metadata import PutTopic
from penstock.cluster.core.node import Node
from penstock.cluster.routing.owners import address_text
from penstock.config.broker import TopicSettings
from penstock.errors import NotCached, NotOwner, RestoreRefused
from penstock.model.owners import NodeAddress

T = TypeVar("T")
KEY = TOPIC, _ = "orders", 0
GROUP = "audit"
SETTINGS = TopicSettings(partitions=1, segment_bytes=4096, retention_ms=60_000)
OLD, NEW = 40, 10  # Messages that retention deletes, and those that are left.


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - in virtual time.
        await asyncio.sleep(0.1)


class Store(SlowObjects):
    """It may take no checkpoints, as if they were on their way for long."""

    holds_checkpoints = False

    async def create(self, name: str, data: bytes) -> bool:
        await until(lambda: not (self.holds_checkpoints and name.startswith("base/")))
        return await super().create(name, data)


class Member:
    """A node in a process of its own."""

    def __init__(self, test: Process, store: Store, network: Network, number: int) -> None:
        self.process = Process(test.simulation, f"n{number}")
        self.network = network
        self._test = test
        self.broker = RealBroker(
            self.process, Random(number), lambda: self.node.commit(), lambda *_: None, store
        )
        self.node = Node(
            incarnation=f"n{number}",
            number=number,
            address=address_text(NodeAddress("sim", number, 0, 0)),
            store=store,
            clock=self.process,
            random=Random(number),
            host=self.broker.host,
            broadcast=lambda _: None,
        )
        self.broker.join(number, self.node, network, number)
        self.operations = LocalOperations(self.broker.core)
        self.process.spawn(self._run())

    async def _run(self) -> None:
        await self.broker.open()
        await self.node.run()

    async def ask(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of something that the node does."""
        answer: asyncio.Future[T] = self._test.create_future()

        def then(result: Any, error: BaseException | None) -> None:
            set_answer = answer.set_result if error is None else answer.set_exception
            self._test.call_soon(set_answer, result if error is None else error)

        self.process.call(0, work, then)
        return await answer

    async def do(self, steps: Callable[[], Any]) -> Any:
        return await self.ask(lambda: self.broker._driver.run(steps()))

    async def serves(self) -> None:
        await until(lambda: self.node.delivers(KEY))

    @property
    def log(self) -> Any:
        return self.broker.core.state.topic(TOPIC).partition(0).log

    async def publish(self, first: int, end: int) -> None:
        for number in range(first, end):
            await self.ask(lambda number=number: self.broker.publish(KEY, number, 1, number))  # type: ignore[misc]

    async def messages(self) -> list[int]:
        """Everything in the log; a successor fetches old segments first."""
        while True:
            try:
                return [int(record.value) for record in self.log.records(self.log.start, self.log.high)]
            except NotCached:
                await asyncio.sleep(0.1)

    def begin(self, batches: bytes) -> Steps[int]:
        """Everything but the end of a restore; returns its number."""
        begun = yield from self.operations.begin_restore(TOPIC, 0, 0)
        yield from self.operations.restore(TOPIC, 0, begun.restore, batches)
        return begun.restore

    def finish(self, number: int) -> Steps[None]:
        return self.operations.finish_restore(TOPIC, 0, number, GROUP, "7d")

    def restore(self, batches: bytes) -> Steps[None]:
        number = yield from self.begin(batches)
        yield from self.finish(number)


async def trimmed(test: Process, store: Store) -> tuple[Member, bytes]:
    """A node whose retention has deleted the first messages of a topic, and their batches."""
    member = Member(test, store, Network(test.simulation, lambda *_: False), 1)
    settings = msgspec.json.encode(SETTINGS).decode()
    await until(lambda: member.node.incarnation in member.node.state.members)
    await member.ask(lambda: member.node.propose(lambda _: PutTopic(TOPIC, "7" * 32, 1, settings)))
    await member.serves()
    await member.publish(0, OLD)
    batches, following = b"", 0
    while following < OLD:
        more, following = member.log.fetch_all(following, 1 << 20, OLD)
        batches += more
    await asyncio.sleep(90)
    await member.publish(OLD, OLD + NEW)
    assert (member.log.start, member.log.end) == (OLD, OLD + NEW)
    await asyncio.sleep(40)  # A checkpoint has forgotten them, too.
    await member.do(lambda: member.operations.create_group(TOPIC, GROUP, {"start": "latest"}))
    return member, batches


async def replaced(test: Process, store: Store, member: Member) -> Member:
    member.process.dead = True
    following = Member(test, store, member.network, 2)
    await following.serves()
    return following


def floor(member: Member) -> int:
    cursor = member.broker.core.state.topic(TOPIC).partition(0).groups[GROUP]
    return cursor.engine.done.floor


def test_what_was_restored_survives_the_loss_of_its_owner() -> None:
    async def work(test: Process) -> None:
        store = Store()
        member, batches = await trimmed(test, store)

        await member.do(lambda: member.restore(batches))

        for owner in (member, await replaced(test, store, member)):
            assert await owner.messages() == list(range(OLD + NEW))
            assert floor(owner) == 0

    in_virtual_time(work, 300)


def test_a_restore_whose_owner_is_lost_before_it_is_over_can_begin_again() -> None:
    async def work(test: Process) -> None:
        store = Store()
        member, batches = await trimmed(test, store)
        number = await member.do(lambda: member.begin(batches))

        owner = await replaced(test, store, member)

        with pytest.raises(RestoreRefused, match="begin again"):
            await owner.do(lambda: owner.finish(number))
        assert (owner.log.start, floor(owner)) == (OLD, OLD + NEW)
        await owner.do(lambda: owner.restore(batches))
        assert await owner.messages() == list(range(OLD + NEW))

    in_virtual_time(work, 400)


def test_a_partition_with_a_restore_that_was_begun_can_be_handed_over() -> None:
    async def work(test: Process) -> None:
        store = Store()
        member, batches = await trimmed(test, store)
        number = await member.do(lambda: member.begin(batches))
        other = Member(test, store, member.network, 2)
        await asyncio.sleep(1)

        await member.ask(lambda: member.node.leave())
        await other.serves()

        assert await other.messages() == list(range(OLD, OLD + NEW))
        with pytest.raises(NotOwner):
            await member.do(lambda: member.finish(number))

    in_virtual_time(work, 400)


def test_an_owner_that_is_lost_before_the_checkpoint_has_not_moved_the_group() -> None:
    """It would be at messages that its successor does not have."""

    async def work(test: Process) -> None:
        store = Store()
        member, batches = await trimmed(test, store)
        store.holds_checkpoints = True
        restoring = test.spawn(member.do(lambda: member.restore(batches)))
        await until(lambda: member.log.start < OLD)
        await asyncio.sleep(5)
        assert not restoring.done()

        owner = await replaced(test, store, member)

        assert (owner.log.start, floor(owner)) == (OLD, OLD + NEW)

    in_virtual_time(work, 400)
