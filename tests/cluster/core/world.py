"""A simulated cluster: nodes, clients, and everything that can go wrong.

machines    run one process after the other; a process that was sealed or has died is followed by another
one clients     idempotent producers that retry, and consumers that settle what they get nemesis
kills, pauses, cuts off, slows down, drains
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import msgspec
from tests.cluster.core.connections import Network
from tests.cluster.core.history import History
from tests.cluster.core.model import LOGS, ModelHost, Rejected
from tests.cluster.core.programs import PARTITIONS, Programs
from tests.cluster.core.real import RESULT_PARTITIONS, RESULTS, RealBroker
from tests.cluster.core.virtual import Machine, Process, SimulatedStore, Simulation, StoreClient, Violation

from penstock.cluster.core.metadata import FORMAT, Key, PutTopic, State
from penstock.cluster.core.node import Heartbeat, Node, Timing
from penstock.cluster.core.objects import unwrap, wal_name
from penstock.cluster.core.wal import ENTRY_BYTES_MAX, Joining, decode_entry
from penstock.cluster.routing.owners import address_text
from penstock.config.broker import DAY_MS, TopicSettings
from penstock.errors import ClusterTooNew, SequenceOutOfOrder, SequenceReused
from penstock.model.owners import NodeAddress

TIMING = Timing(heartbeat_s=0.5, beat_s=2.0, poll_s=3.0, checkpoint_s=1.5, collect_s=1.0, balance_s=3.0)
TOPIC = "orders"
KAFKA_GROUPS = ("billing", "mail")
SEGMENT_BYTES = 4096  # Some twelve messages: a partition has several segments.
ANSWER_S = 2.0  # A client waits so long for an answer.
LIVES_MAX = 1000  # Of one machine.
HEALING_S = 40.0  # After the last fault, everything works again within this.


class Life:
    """One process of a machine."""

    def __init__(self, world: "World", machine: Machine) -> None:
        machine.lives += 1
        self.machine = machine
        self.process = Process(world.simulation, f"n{machine.number}.{machine.lives}")
        incarnation = f"n{machine.number}.{machine.lives}"
        port = LIVES_MAX * machine.number + machine.lives
        world.numbers[self.process] = machine.number
        random = Random(world.random.getrandbits(64))

        def on_commit(key: Key, epoch: int) -> None:
            world.history.commit(key, epoch, incarnation)

        store = StoreClient(world.store, machine, self.process)
        self.broker: ModelHost | RealBroker
        if world.real:
            self.broker = RealBroker(
                self.process,
                random,
                lambda: self.node.commit(),
                on_commit,
                store,
            )
        else:
            self.broker = ModelHost(self.process, lambda: self.node.commit(), on_commit)
        self.node = Node(
            incarnation=incarnation,
            number=machine.number,
            address=address_text(NodeAddress("sim", port, 0, 0)),
            store=store,
            clock=self.process,
            random=random,
            host=self.broker.host,
            broadcast=lambda beat: world.broadcast(self, beat),
            timing=TIMING,
            window=world.random.choice((1, 2, 4)),
        )
        # Rounds are cut into parts of some hundred bytes; the entry of a checkpoint would not fit into one.
        self.node.metadata.entry_bytes_max = ENTRY_BYTES_MAX
        self.node.metadata.format = machine.format
        self.broker.join(machine.number, self.node, world.network, port)

    async def run(self) -> None:
        await self.broker.open()
        try:
            await self.node.run()
        except* ClusterTooNew:
            self.machine.format = FORMAT + 1  # Its operator notices.
        await asyncio.sleep(0.3)  # Answers that are on their way.
        self.process.dead = True


class World:
    def __init__(
        self,
        seed: int,
        *,
        real: bool = False,
        programs: bool = True,
        machines: int = 3,
        partitions: int = 4,
        seconds: float = 20.0,
    ) -> None:
        self.real = real  # The real broker, or a model of it.
        self.simulation = Simulation(seed)
        self.random = self.simulation.random
        self.store = SimulatedStore(self.simulation)
        self.store.late_list = self.random.random() < 0.5
        self.store.object_bytes_max = self.random.choice((600, 2000, ENTRY_BYTES_MAX))
        self.seconds = seconds
        self.healed = False
        self.history = History()
        self.keys: list[Key] = [(TOPIC, number) for number in range(partitions)]
        self.results: list[Key] = [(RESULTS, number) for number in range(RESULT_PARTITIONS)] if real else []
        self.unheard: set[tuple[int, int]] = set()  # Heartbeats from the one do not reach the other.
        self.numbers: dict[Process, int] = {}  # Of the machine of each process.
        self.network = Network(self.simulation, self._is_held)
        self.calm = Process(self.simulation, "clients")
        self.machines = [Machine(number) for number in range(machines)]
        self.lives = {machine.number: Life(self, machine) for machine in self.machines}
        self.faults: Counter[str] = Counter()
        self.created = asyncio.Event()  # The topics are there.
        self.programs = Programs(self) if real and programs else None

    def run(self) -> None:
        try:
            self._run()
        finally:
            self.simulation.close()

    def _run(self) -> None:
        for life in self.lives.values():
            life.process.spawn(life.run())
            self.calm.spawn(self._supervise(life.machine))
        self.calm.spawn(self._create_topic())
        for number in range(len(self.keys) + 2):
            self.calm.spawn(self._produce(number))
        for _ in range(4):
            self.calm.spawn(self._consume())
        for group in KAFKA_GROUPS if self.real else ():
            self.calm.spawn(self._commit_offsets(group))
        if self.real:
            self.calm.spawn(self.network.sweep())
        if self.programs is not None:
            self.programs.start()
        nemesis = Process(self.simulation, "nemesis")
        nemesis.call_later(2.0, lambda: nemesis.spawn(self._nemesis()))
        self.simulation.run(self.seconds)
        nemesis.dead = True
        self._heal()
        end_s = self.simulation.now + HEALING_S
        while self.simulation.now < end_s and not self._whole():
            self.simulation.run(self.simulation.now + 0.5)
        self._check()

    # Machines.

    async def _supervise(self, machine: Machine) -> None:
        while True:
            await asyncio.sleep(0.3)
            if self.lives[machine.number].process.dead:
                await asyncio.sleep(0.1 if self.healed else self.random.uniform(0.1, 3))
                life = self.lives[machine.number] = Life(self, machine)
                life.process.spawn(life.run())

    def broadcast(self, sender: Life, beat: Heartbeat) -> None:
        for life in self.lives.values():
            if life is sender or (sender.machine.number, life.machine.number) in self.unheard:
                continue
            if life.process.dead:
                sender.node.sealing.refused(life.node.incarnation)
            else:
                life.process.call_later(self.random.uniform(0.001, 0.02), life.node.heard, beat)

    async def _create_topic(self) -> None:
        def make(state: State) -> PutTopic | None:
            for number, (name, count) in enumerate(sizes.items()):
                if name not in state.topics:
                    settings = TopicSettings(
                        partitions=count, segment_bytes=SEGMENT_BYTES, dedup_window_ms=DAY_MS
                    )
                    text = msgspec.json.encode(settings).decode()
                    return PutTopic(name, f"{number:032}", count, text)
            return None

        sizes = {TOPIC: len(self.keys)}
        if self.real:
            sizes = {RESULTS: RESULT_PARTITIONS, **sizes}
        if self.programs is not None:
            sizes = {**PARTITIONS, **sizes}
        while not any(TOPIC in life.node.state.topics for life in self.lives.values()):
            await asyncio.sleep(0.5)
            life = self.lives[0]
            if life.node.incarnation in life.node.state.members:
                life.process.call(0.0, partial(life.node.propose, make), lambda *_: None)
        self.created.set()

    def _is_held(self, sender: Process, receiver: Process) -> bool:
        return (self.numbers[sender], self.numbers[receiver]) in self.unheard

    # Clients.

    def owner(self, key: Key) -> Life | None:
        """Who owns a partition, as some node believes."""
        state = self.random.choice(list(self.lives.values())).node.state
        found = state.partition(key)
        return next(
            (life for life in self.lives.values() if found and life.node.incarnation == found.owner), None
        )

    async def ask(
        self,
        life: Life,
        work: Callable[[], Coroutine[Any, Any, Any]],
        caller: Process | None = None,
        answer_s: float = ANSWER_S,
    ) -> Any:
        """Send a request to a process; TimeoutError if there is no answer."""
        asking = caller or self.calm
        answer: asyncio.Future[Any] = asking.create_future()

        def then(result: Any, error: BaseException | None) -> None:
            asking.call_later(self.random.uniform(0.001, 0.01), reply, result, error)

        def reply(result: Any, error: BaseException | None) -> None:
            if not answer.done():
                answer.set_exception(error) if error is not None else answer.set_result(result)

        life.process.call(self.random.uniform(0.001, 0.01), work, then)
        timer = asking.call_later(answer_s, reply, None, TimeoutError())
        try:
            return await answer
        finally:
            timer.cancel()

    async def _produce(self, producer: int) -> None:
        """Idempotent: a number is used again only if its message was definitely not written."""
        key = self.keys[producer % len(self.keys)]
        message, producer_id, sequence = producer * 10**6, producer * 1000, 0
        while self.simulation.now < self.seconds + 5:
            await asyncio.sleep(self.random.expovariate(3))
            message += 1
            outcome = await self._publish(key, message, producer_id, sequence)
            if outcome is None:
                self.history.unknown.add(message)
                producer_id, sequence = producer_id + 1, 0
            elif outcome:
                sequence += 1

    async def _publish(self, key: Key, message: int, producer_id: int, sequence: int) -> bool | None:
        """Whether it was written; None if nobody knows."""
        unknown = False
        for _ in range(12):
            life = self.owner(key)
            if life is not None:
                try:
                    await self.ask(life, partial(self._append, life, key, message, producer_id, sequence))
                except Rejected:
                    if not unknown and self.random.random() < 0.2:
                        self.history.rejected.add(message)
                        return False
                except TimeoutError:
                    unknown = True
                    if self.random.random() < 0.1:
                        return None
                else:
                    return True
            await asyncio.sleep(self.random.uniform(0.05, 0.5))
        return None

    async def _append(self, life: Life, key: Key, message: int, producer_id: int, sequence: int) -> None:
        """What a node acknowledges counts, also if the client has given up."""
        try:
            offset = await life.broker.publish(key, message, producer_id, sequence)
        except (SequenceOutOfOrder, SequenceReused) as error:
            raise Violation(f"{key}: {error}") from error
        self.history.acknowledge(key, offset, message, self.simulation.now)

    async def _consume(self) -> None:
        while self.simulation.now < self.seconds + 5:
            await asyncio.sleep(self.random.expovariate(6))
            key = self.random.choice(self.keys)
            life = self.random.choice(
                list(self.lives.values())
            )  # Also one that believes to be the owner still.
            if life.node.opened.get(key) is not None:
                try:
                    await self._work_on(life, key)
                except (Rejected, TimeoutError):
                    continue

    async def _work_on(self, life: Life, key: Key) -> None:
        found = await self.ask(life, lambda: self._deliver(life, key))
        if found is not None:
            receipt, offset, message = found
            await asyncio.sleep(self.random.choice((0, 0, 0.1, 0.1, 2.0)))
            self.history.settling.add((key, offset))
            owner = self.owner(key)
            if owner is not None:
                await self.ask(owner, lambda: self._settle(owner, key, receipt, offset, message))

    async def _settle(self, owner: Life, key: Key, receipt: Any, offset: int, message: int) -> None:
        settled = await owner.broker.settle(key, receipt, message)
        self.history.settle(key, offset, settled)

    async def _deliver(self, life: Life, key: Key) -> tuple[Any, int, int] | None:
        with suppress(Rejected):
            self._read(life, key)
        found = await life.broker.deliver(key)
        if found is not None:
            self.history.deliver(key, *found[1:])
        return found

    def _read(self, life: Life, key: Key) -> None:
        end, messages = life.broker.read(key, self.random)
        self.history.read_end(key, end, self.simulation.now)
        for offset, message in messages:
            self.history.read(key, offset, message)

    async def _commit_offsets(self, group: str) -> None:
        """Members of a Kafka group, of which some do not know yet that it has another coordinator."""
        while self.simulation.now < self.seconds + 5:
            await asyncio.sleep(self.random.expovariate(8))
            key, life = self.random.choice(self.keys), self.random.choice(list(self.lives.values()))
            with suppress(Rejected, TimeoutError):
                await self.ask(life, partial(self._coordinate, life, key, group))

    async def _coordinate(self, life: Life, key: Key, group: str) -> None:
        """What the coordinator of a group does: send an offset to the owner of its partition."""
        assert isinstance(life.broker, RealBroker)
        epoch, owner = life.broker.coordinates(group), self.owner(key)
        if epoch is not None and owner is not None:
            number = self.history.send_commit(epoch)
            await self.ask(owner, partial(self._store_offset, owner, key, group, number, epoch), life.process)

    async def _store_offset(self, owner: Life, key: Key, group: str, number: int, epoch: int) -> None:
        assert isinstance(owner.broker, RealBroker)
        stored = await owner.broker.store_offset(key, group, number, epoch)
        self.history.store_commit(owner.node.incarnation, key, group, stored)

    # Faults.

    async def _nemesis(self) -> None:
        kinds = [getattr(self, f"_fault_{name}") for name in FAULTS + (REAL_FAULTS if self.real else ())]
        if self.random.random() < 0.5:
            self._zombie(self.random.choice(list(self.lives.values())))
        while True:
            await asyncio.sleep(self.random.uniform(0.2, 2.5))
            fault = self.random.choice(kinds)
            self.faults[fault.__name__[7:]] += 1
            fault(self.random.choice(list(self.lives.values())))

    def _zombie(self, life: Life) -> None:
        """Not heard of for so long that others take over, and then it is back."""
        until_s = self.simulation.now + self.random.uniform(9, 13)
        if self.random.random() < 0.5:
            life.process.paused_s = until_s
        else:
            life.machine.cut_s, life.machine.cut_loss = until_s, 1.0

    def _fault_kill(self, life: Life) -> None:
        life.process.dead = True

    def _fault_die(self, life: Life) -> None:
        life.process.dies_in = self.random.randrange(1, 200)

    def _fault_pause(self, life: Life) -> None:
        life.process.paused_s = self.simulation.now + self.random.choice((1, 4, 8, 12))

    def _fault_cut(self, life: Life) -> None:
        life.machine.cut_loss = self.random.choice((0.9, 1.0))
        life.machine.cut_s = self.simulation.now + self.random.choice((0.5, 3, 8, 15))

    def _fault_slow(self, life: Life) -> None:
        life.machine.slow = self.random.choice((1, 1, 5, 20))

    def _fault_clock(self, life: Life) -> None:
        """The wall clock jumps, forward or back."""
        life.process.wall_step_ms = self.random.randrange(-3_600_000, 3_600_000)

    def _fault_crash(self, life: Life) -> None:
        """Dies while requests are being lost."""
        self.store.faults = 0.3
        self._fault_die(life)

    def _fault_storm(self, life: Life) -> None:
        self.store.faults = self.random.choice((0.05, 0.3))

    def _fault_calm(self, life: Life) -> None:
        self.store.faults = 0.0
        self.unheard.clear()

    def _fault_deaf(self, life: Life) -> None:
        """Heartbeats of a node are lost, in one direction."""
        other = self.random.choice(self.machines)
        self.unheard.add((life.machine.number, other.number))

    def _fault_sever(self, life: Life) -> None:
        """Connections with other nodes break."""
        self.network.sever(life.process)

    def _fault_drain(self, life: Life) -> None:
        if life.node.incarnation in life.node.state.members:
            life.process.call(0.0, life.node.leave, lambda *_: None)

    def _fault_evict(self, life: Life) -> None:
        assert isinstance(life.broker, RealBroker)
        life.process.call_soon(life.broker.evict, self.faults)

    def _fault_damage(self, life: Life) -> None:
        """A file of the cache is changed or lost."""
        assert isinstance(life.broker, RealBroker)
        life.process.call_soon(life.broker.damage, self.random, self.faults)

    def _heal(self) -> None:
        self.healed = True
        self.store.faults = 0.0
        self.unheard.clear()
        for life in self.lives.values():
            life.machine.slow, life.machine.cut_s, life.process.paused_s = 1.0, 0.0, 0.0

    # The end.

    def _whole(self) -> bool:
        if self.programs is not None and not self.programs.are_whole():
            return False
        servers = [(key, self.server(key)) for key in [*self.keys, *self.results]]
        return self.simulation.now > self.seconds + 8 and all(
            life is not None and not life.broker.owes(key) and life.broker.is_cached(key)
            for key, life in servers
        )

    def server(self, key: Key) -> Life | None:
        """Who serves a partition, according to the newest metadata."""
        assigned = self.state().partition(key)
        for life in self.lives.values():
            if assigned is not None and life.node.incarnation == assigned.owner and not life.process.dead:
                serves = life.node.opened.get(key) == assigned.epoch and life.broker.host.serves(key)
                return life if serves else None
        return None

    def state(self) -> State:
        """The newest state that any node has."""
        return max((life.node.state for life in self.lives.values()), key=lambda state: state.next)

    def _check(self) -> None:
        if self.programs is not None:
            self.programs.check()
        outputs = Counter[int]()
        for key in self.results:
            life = self.server(key)
            if life is None:
                raise Violation(f"{key} is served by nobody")
            outputs.update(life.broker.messages(key))
        for key in self.keys:
            life = self.server(key)
            if life is None:
                raise Violation(f"{key} is served by nobody")
            messages, settled = life.broker.messages(key), life.broker.settled(key)
            if isinstance(life.broker, ModelHost):
                stored = self._replay(key)
                if stored["data"][: len(messages)] != messages or settled - set(stored["journal"]):
                    raise Violation(f"{key}: its owner has something else than the store")
            self.history.check(key, messages, settled)
            if isinstance(life.broker, RealBroker):
                self._check_effects(key, life.broker, messages, settled, outputs)

    def _check_effects(
        self, key: Key, broker: RealBroker, messages: list[int], settled: set[int], outputs: Counter[int]
    ) -> None:
        """What the model does not have: outputs of settled messages, and commits of Kafka groups."""
        for offset, message in enumerate(messages):
            if outputs[message] != (offset in settled):
                raise Violation(f"{key}: {message} has {outputs[message]} outputs, {offset in settled}")
        for group in KAFKA_GROUPS:
            self.history.check_commit(key, group, broker.stored_commit(key, group))

    def _replay(self, key: Key) -> dict[str, list[int]]:
        """A partition, as the bare objects have it."""
        assigned = self.state().partition(key)
        assert assigned is not None
        logs: dict[str, list[int]] = {log: [] for log in LOGS}
        for piece in assigned.base:
            if set(piece.names) - self.store.objects.keys():
                raise Violation(f"{key}: its checkpoint has lost one of {piece.names}")
            data = b"".join(unwrap("base", name, self.store.objects[name]) for name in piece.names)
            logs[piece.file] = [int(item) for item in data.split()]
        for each in assigned.history:
            sequence, joining = each.start, Joining()
            while sequence != each.end:
                data_or_none = self.store.objects.get(wal_name(each.incarnation, sequence))
                entry = decode_entry("", data_or_none) if data_or_none is not None else None
                if entry is None or entry.tombstone:
                    break
                whole = joining.add("", entry)
                for part, data_view in whole.slices(key, each.epoch) if whole is not None else ():
                    if part.first == len(logs[part.log]):
                        logs[part.log] += [int(item) for item in bytes(data_view).split()]
                sequence += 1
            if each.end is not None and sequence != each.end:
                raise Violation(f"{key}: {wal_name(each.incarnation, sequence)} is missing")
        return logs


FAULTS = ("kill", "die", "crash", "pause", "cut", "slow", "storm", "calm", "calm", "deaf", "drain", "clock")
REAL_FAULTS = ("evict", "evict", "damage", "sever")  # Of the real broker.
