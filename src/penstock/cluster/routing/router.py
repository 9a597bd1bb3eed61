"""Routes operations to the nodes that own their partitions.

    front end ──> guard ──> ClusterOperations ──┬── this node owns it: LocalOperations
                            (operations.py,     ├── one other node:    a request to its peer port
                             generated)         └── several:           all of them at once, and a merge

The route of each operation is in ``operations/spec.py``.  A node that no longer owns the partition, or that
cannot be reached, has changed nothing: the owner table is refreshed and the request is sent again, with the
same producer ids and sequence numbers, for up to ``ROUTE_MS_MAX``.  If a connection breaks after a request
was sent, it is repeated only if the specification declares that safe.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar, cast

from penstock.broker.core import Core
from penstock.broker.drivers.loop import Running, Then
from penstock.broker.observability.measuring import Family
from penstock.broker.operations import LocalOperations
from penstock.broker.publish.schedules import is_number
from penstock.broker.steps import Arrival, Steps, Written
from penstock.cluster.core.metadata import GROUPS
from penstock.cluster.routing import merging
from penstock.cluster.routing.administering import AdministrationSteps
from penstock.cluster.routing.calls import PEER_CALLS
from penstock.cluster.routing.connection import Answer
from penstock.cluster.routing.listener import METRICS
from penstock.cluster.routing.owners import OwnerTable
from penstock.cluster.routing.peers import Peer, Peers
from penstock.errors import (
    MetadataStale,
    NotCached,
    NotOwner,
    OutcomeUnknown,
    PenstockError,
    ServerUnreachable,
    TopicNotFound,
    UnavailableError,
)
from penstock.groups.commits import Commit
from penstock.groups.rebalance import Committer, KafkaGroupState
from penstock.model.cluster import TopicOwners
from penstock.model.info import Fetched, Redrive
from penstock.model.message import Message, Receipt
from penstock.model.owners import topic_owners
from penstock.model.placing import ANYWHERE, place, placed
from penstock.operations.call import IDEMPOTENT, NOT_REPEATED, RetryClass
from penstock.operations.codec import decode_answer, plain, receipt_of, wire_message
from penstock.wire import native
from penstock.wire.kafka.codes import Code
from penstock.wire.native_bodies import (
    PublishMessages,
    WireReceipt,
    decode_body,
    decode_error,
    encode_body,
    encode_call,
)
from penstock.wire.records import HEADER_BYTES, producer_id_of

ROUTE_MS_MAX: Final = 15_000  # A fail-over takes a few seconds.
RETRY_MS: Final = 100  # Unless the owner table changes sooner.
ANSWER_MS_MAX: Final = 30_000  # For a response, beyond the wait that the request asks for.

NOT_HERE: Final = (NotOwner, NotCached)  # Refused before anything was written.
GONE: Final = (NotOwner, ServerUnreachable, OutcomeUnknown)  # The owner; perhaps not the topic or group.

T = TypeVar("T")
Start = Callable[[Steps[Any], Then], Running]
Local = Callable[..., Steps[T]]


class Router(AdministrationSteps):
    """Finds owners, forwards and retries; implements the operations that need more than that."""

    def __init__(
        self, core: Core, local: LocalOperations, owners: OwnerTable, peers: Peers, start: Start
    ) -> None:
        super().__init__(core)
        self.owners: OwnerTable = owners
        self._local = local
        self._peers = peers
        self.start = start  # Runs steps of this node while an operation waits for others.
        self._turn = 0
        # These are set by name in the base class.
        self.publish = self._publish
        self.publish_batch = self._publish_batch
        self.append = self._append
        self.fetch = self._fetch
        core.state.forward = self.append_output

    @property
    def local(self) -> LocalOperations:
        """The operations of this node alone."""
        return self._local

    @property
    def closed(self) -> bool:
        return self._core.state.closed

    def create_missing(self, outputs: list[tuple[str, Message]]) -> Steps[None]:
        return self._core.missing.create_all(outputs)

    # Owners.

    @property
    def now_ms(self) -> int:
        return self._core.state.clock.steady_ms()

    def owner(self, topic: Any, partition: Any) -> int:
        """The owner of a partition; this node if there is no such partition, because it raises the error."""
        found = self._core.state.find(topic)
        if found is None or type(partition) is not int or not 0 <= partition < len(found.partitions):
            return self.owners.node
        return self.owners.owner_of(topic, partition)[0]

    def owners_of(self, topic: Any) -> list[int]:
        """The nodes that own partitions of a topic."""
        found = self._core.state.find(topic)
        numbers = range(len(found.partitions)) if found is not None else ()
        return sorted({self.owner(topic, number) for number in numbers}) or [self.owners.node]

    def topic_owners(self, topic: str) -> TopicOwners:
        return topic_owners(self.owners, topic, len(self._core.state.topic(topic).partitions))

    def peer(self, node: int) -> Peer:
        address = self.owners.nodes().get(node)
        if address is None:
            raise ServerUnreachable(server=f"node {node}", why="it has left the cluster")
        return self._peers.peer(node, address)

    def _bytes_max(self, topic: Any) -> int:
        """The bytes that a node returns of one partition when messages are read, if there are more."""
        found = self._core.state.find(topic)
        return self._core.state.config.receive_bytes_max // max(len(found.partitions) if found else 1, 1)

    # Forwarding.

    def routed(
        self, attempt: Callable[[], Steps[T]], retry: RetryClass, wait_ms: int = ROUTE_MS_MAX
    ) -> Steps[T]:
        """Try until the nodes agree about the owner."""
        until_ms = self.now_ms + wait_ms
        unknown: OutcomeUnknown | None = None  # It may have been done already.
        while True:
            try:
                return (yield from self._knowing_topics(attempt))
            except (NotOwner, ServerUnreachable) as error:
                refusal: PenstockError = error
            except OutcomeUnknown as error:
                if not retry.repeats:
                    raise
                refusal = unknown = error
            except PenstockError as error:
                if unknown is not None and error.code in retry.done:
                    return None  # type: ignore[return-value]  # Such operations have no result.
                if unknown is not None and retry.changes and isinstance(error, UnavailableError):
                    raise unknown from error  # This error says nothing about the first attempt.
                raise
            if self.now_ms >= until_ms:
                raise unknown if unknown is not None and retry.changes else refusal
            self.owners.refresh()
            yield Arrival(self.owners, min(self.now_ms + RETRY_MS, until_ms))

    def _knowing_topics(self, attempt: Callable[[], Steps[T]]) -> Steps[T]:
        """Read the metadata log to its end before a topic is reported as unknown."""
        try:
            return (yield from attempt())
        except TopicNotFound as error:
            if not isinstance(error.topic, str) or self._core.state.find(error.topic) is not None:
                raise
            yield from self._core.state.registry.refresh_topic(error.topic)
            if self._core.state.find(error.topic) is None:
                raise
        return (yield from attempt())

    def wait(self, answer: Answer, wait_ms: int = 0) -> Steps[bytes]:
        return answer.wait(self._core.state.clock, self.now_ms + wait_ms + ANSWER_MS_MAX)

    def _ask(self, node: int, name: str, arguments: tuple[Any, ...]) -> Answer:
        packed = PEER_CALLS[name].arguments(*map(_plain, arguments))
        return self.peer(node).ask(name, lambda correlation: encode_call(correlation, name, packed))

    def _told(self, answer: Answer, name: str) -> Steps[Any]:
        try:
            body = yield from self.wait(answer, PEER_CALLS[name].wait_ms)
        except TopicNotFound as error:
            if self._core.state.find(error.topic) is None:
                raise
            # It was created a moment ago, and that node has not applied the entry yet.
            raise NotOwner(topic=error.topic, partition=0, owner=-1, epoch=0) from error
        return self._answered(name, body)

    @staticmethod
    def _answered(name: str, body: bytes) -> Any:
        return decode_answer(name, memoryview(body)[4:], PEER_CALLS)

    def at_node(self, node: int, name: str, local: Local[T], arguments: tuple[Any, ...]) -> Steps[T]:
        if node == self.owners.node:
            return (yield from local(*arguments))
        result: T = yield from self._told(self._ask(node, name, arguments), name)
        return result

    def at_each(self, name: str, local: Local[Any], arguments: dict[int, tuple[Any, ...]]) -> Steps[None]:
        """Execute an operation at several nodes at once, each with its own arguments."""
        asked = [
            self._ask(node, name, given) for node, given in arguments.items() if node != self.owners.node
        ]
        try:
            if self.owners.node in arguments:
                yield from local(*arguments[self.owners.node])
            for answer in asked:
                yield from self._told(answer, name)
        except TopicNotFound as error:  # By the metadata it exists: that node does not know it yet.
            raise NotOwner(topic=error.topic, partition=0, owner=-1, epoch=0) from error

    def at_owner(
        self, name: str, local: Local[T], topic: Any, partition: Any, arguments: tuple[Any, ...]
    ) -> Steps[T]:
        """Execute an operation at the node that owns a partition."""

        def attempt() -> Steps[T]:
            return self.at_node(self.owner(topic, partition), name, local, arguments)

        return self.routed(attempt, PEER_CALLS[name].retry)

    def by_id(self, name: str, local: Local[T], identity: Any, arguments: tuple[Any, ...]) -> Steps[T]:
        """Execute an operation at the owner of an id such as orders:0:17 or orders:0:s5."""
        parts = identity.split(":") if isinstance(identity, str) else []
        number = int(parts[1]) if len(parts) == 3 and is_number(parts[1]) else None
        return self.at_owner(name, local, parts[0] if parts else identity, number, arguments)

    def at_all(
        self,
        name: str,
        local: Local[T],
        topic: Any,
        arguments: tuple[Any, ...],
        merge: Callable[[dict[int, T], merging.Merging], T],
    ) -> Steps[T]:
        """Execute an operation at every owner of a topic's partitions at once; without a topic, at every
        node.

        No partition may be left out, even if it is moving.  So before the operation each node is asked
        whether it has the partitions that the owner table assigns to it (``check_owned``), and after a
        change whether it still has them: equal epochs show that they have not been away.
        """
        retry = PEER_CALLS[name].retry
        executed = False  # Done by some node, in this attempt or an earlier one.

        def attempt() -> Steps[T]:
            nonlocal executed
            owned = self._ownership(topic)
            nodes = self.owners_of(topic) if topic is not None else sorted(self.owners.nodes())
            checks = {node: (topic, owned[node]) for node in nodes if node in owned}
            checked = [self._ask(node, "check_owned", checks[node]) for node in self._others(checks)]
            asked = {node: self._ask(node, name, arguments) for node in self._others(nodes)}
            if self.owners.node in checks:
                yield from self._local.check_owned(*checks[self.owners.node])
            works: dict[int, Steps[T]] = {node: self._told(answer, name) for node, answer in asked.items()}
            if self.owners.node in nodes:
                works = {self.owners.node: local(*arguments), **works}
            found, refusal = yield from _results(works, retry)
            executed = executed or bool(found)
            for answer in checked:
                yield from self._told(answer, "check_owned")
            if retry.changes and retry.repeats:
                yield from self.at_each("check_owned", self._local.check_owned, checks)
            if self._ownership(topic) != owned:
                raise NotOwner(topic=str(topic), partition=0, owner=-1, epoch=0)
            if refusal is not None and not executed:
                raise refusal
            if len(found) == 1:
                return next(iter(found.values()))
            return merge(found, merging.Merging(self.owner, arguments, self._bytes_max(topic)))

        return self.routed(attempt, retry)

    def _others(self, nodes: Iterable[int]) -> list[int]:
        return [node for node in nodes if node != self.owners.node]

    def _ownership(self, topic: Any) -> dict[int, list[tuple[int, int]]]:
        """The owned partitions of a topic and their epochs, by node."""
        owned: dict[int, list[tuple[int, int]]] = defaultdict(list)
        found = None if topic is None else self._core.state.find(topic)
        for number in range(len(found.partitions) if found is not None else 0):
            node, epoch = self.owners.owner_of(topic, number)
            owned[node].append((number, epoch))
        return dict(owned)

    # Publishing.

    def _publish(self, name: Any, message: Message) -> Steps[Receipt]:
        [receipt] = yield from self._publish_batch(name, [message])
        return receipt

    def _publish_batch(self, name: Any, messages: Iterable[Any]) -> Steps[list[Receipt]]:
        topic = name
        _, settings = yield from self.metadata(topic)
        numbers, there = self.placed_messages(topic, messages, settings.partitions)

        def send(node: int, some: list[Message]) -> Answer:
            body = PublishMessages(topic, native.ACKS_DURABLE, [wire_message(each) for each in some])
            return self.peer(node).ask(
                "publish", lambda correlation: encode_body(native.PUBLISH_MESSAGES, correlation, body)
            )

        def here(some: list[Message]) -> Steps[list[Receipt]]:
            return self._local.publish_batch(topic, some)

        def read(body: bytes) -> list[Receipt]:
            return [receipt_of(topic, each) for each in decode_body(body, list[WireReceipt])]

        answers = yield from self._split(topic, numbers, there, Split(send, here, read), NOT_REPEATED, {})
        return receipts_of(answers)

    def placed_messages(
        self, topic: str, messages: Iterable[Any], partitions: int
    ) -> tuple[list[int], list[Message]]:
        """Choose the partition of each message; returns the partitions, and messages that name them."""
        anywhere = self._any_partition(partitions)
        batch = [each if isinstance(each, Message) else Message(each) for each in messages]
        numbers = [_placed(topic, each, partitions, anywhere) for each in batch]
        return numbers, [_at_partition(each, number) for each, number in zip(batch, numbers, strict=True)]

    def _append(self, name: Any, number: Any, data: Any) -> Steps[Receipt]:
        topic, partition, batch = name, number, data
        version, settings = yield from self.metadata(topic)
        if not isinstance(batch, bytes) or place(topic, partition, None, settings.partitions) == ANYWHERE:
            return (yield from self._local.append(topic, partition, batch))  # It knows the error.
        [answer] = yield from self.append_batches(topic, version, [(partition, batch)], True)
        if isinstance(answer, PenstockError):
            raise answer
        return answer

    def append_batches(
        self, topic: str, version: int, batches: list[tuple[int, bytes]], wait: bool
    ) -> Steps[list[Receipt | PenstockError]]:
        """Append each batch of a client at the owner of its partition, which recognises a producer's retry.

        Batches for partitions of this node are written at once, as without a cluster.
        """
        found = self._core.state.find(topic)
        if found is None or not all(found.partitions.get(number) for number, _ in batches):
            return self._append_at_owners(topic, version, batches, wait, {})
        steps = self._core.publishing.append_batches(topic, version, batches, wait)
        if isinstance(steps, Written) and not any(isinstance(each, NOT_HERE) for each in steps.result):
            return cast("Steps[list[Receipt | PenstockError]]", steps)
        return self._append_begun(steps, topic, version, batches, wait)

    def _append_begun(
        self,
        begun: Steps[list[Receipt | PenstockError]],
        topic: str,
        version: int,
        batches: list[tuple[int, bytes]],
        wait: bool,
    ) -> Steps[list[Receipt | PenstockError]]:
        """Send batches that could not be written here to their owners."""
        found = yield from begun
        answers = {at: each for at, each in enumerate(found) if not isinstance(each, NOT_HERE)}
        if len(answers) == len(batches):
            return found
        return (yield from self._append_at_owners(topic, version, batches, wait, answers))

    def _append_at_owners(
        self,
        topic: str,
        version: int,
        batches: list[tuple[int, bytes]],
        wait: bool,
        answers: dict[int, Receipt | PenstockError],
    ) -> Steps[list[Receipt | PenstockError]]:
        """Send each batch to its owner, except for those that have an outcome."""
        current, _ = yield from self.metadata(topic)
        if current != version:
            raise MetadataStale(topic=topic, version=version)
        acks = native.ACKS_DURABLE if wait else native.ACKS_WRITTEN

        def send(node: int, some: list[tuple[int, bytes]]) -> Answer:
            return self.peer(node).ask(
                "publish", lambda correlation: native.encode_publish(correlation, topic, 0, acks, some)
            )

        def here(some: list[tuple[int, bytes]]) -> Steps[list[Receipt | PenstockError]]:
            return self._local.append_batches(topic, version, some, wait)

        def read(body: bytes) -> list[Receipt | PenstockError]:
            return [_answer(topic, outcome) for outcome in native.decode_published(body)[0]]

        numbered = all(len(batch) >= HEADER_BYTES and producer_id_of(batch) >= 0 for _, batch in batches)
        numbers = [number for number, _ in batches]
        retry = IDEMPOTENT if numbered else NOT_REPEATED
        return (yield from self._split(topic, numbers, batches, Split(send, here, read), retry, answers))

    def _split(
        self,
        topic: str,
        numbers: list[int],
        items: list[Any],
        split: "Split",
        retry: RetryClass,
        answers: dict[int, Receipt | PenstockError],
    ) -> Steps[list[Receipt | PenstockError]]:
        """Send each item to the owner of its partition, to all owners at once; returns an answer for each
        item.

        Items that already have an answer keep it.
        """
        unknown: dict[int, OutcomeUnknown] = {}  # An earlier attempt may have written these.
        again = (NotOwner, ServerUnreachable, *((OutcomeUnknown,) if retry.repeats else ()))

        def attempt() -> Steps[None]:
            shares: dict[int, list[int]] = defaultdict(list)
            for at, number in enumerate(numbers):
                if at not in answers or isinstance(answers[at], again):
                    shares[self.owner(topic, number)].append(at)
            some = {node: [items[at] for at in share] for node, share in shares.items()}
            asked = {node: _begun(split.send, node, some[node]) for node in some if node != self.owners.node}
            for node, share in shares.items():
                try:
                    if node in asked:
                        found = split.read((yield from self.wait(asked[node])))
                    else:
                        found = yield from split.here(some[node])
                except (OutcomeUnknown, UnavailableError) as error:
                    if not unknown and not isinstance(error, GONE):
                        raise  # Otherwise wait for the others, too: they may have written their share.
                    found = [error] * len(share)
                answers.update(zip(share, found, strict=True))
                unknown.update(
                    (at, answer)
                    for at, answer in zip(share, found, strict=True)
                    if isinstance(answer, OutcomeUnknown)
                )
            for answer in answers.values():
                if isinstance(answer, again):
                    raise answer

        with suppress(*GONE):  # These are among the answers.
            yield from self.routed(attempt, retry)
        return [
            unknown.get(at, answer) if isinstance(answer, (*GONE, UnavailableError)) else answer
            for at, answer in sorted(answers.items())
        ]

    def _any_partition(self, partitions: int) -> int:
        self._turn += 1
        return self._turn % partitions

    def schedule(self, topic: str, message: Message, cron: str, timezone: str) -> Steps[str]:
        _, settings = yield from self.metadata(topic)
        number = _placed(topic, message, settings.partitions, self._any_partition(settings.partitions))
        arguments = (topic, _at_partition(message, number), cron, timezone)
        return (yield from self.at_owner("schedule", self._local.schedule, topic, number, arguments))

    # Operations that neither belong to one owner nor merge results.

    def _fetch(self, name: str, number: int, offset: int, max_bytes: int, journal: bool) -> Steps[Fetched]:
        arguments = (name, number, offset, max_bytes, journal)
        return self.at_owner("fetch", self._local.fetch, name, number, arguments)

    def commit_offsets(self, topic: str, group: str, offsets: dict[int, int]) -> Steps[None]:
        if not isinstance(offsets, dict) or not offsets:
            return self._local.commit_offsets(topic, group, offsets)  # It raises the error.
        return self._by_owner("commit_offsets", self._local.commit_offsets, topic, group, offsets)

    def _by_owner(
        self, name: str, local: Local[Any], topic: str, group: str, of: dict[int, Any], kind: Any = dict
    ) -> Steps[None]:
        """Execute an operation at every owner, with the arguments of its own partitions."""

        def attempt() -> Steps[None]:
            for node, share in self._shares(topic, of).items():
                yield from self.at_node(node, name, local, (topic, group, kind(share)))

        return self.routed(attempt, IDEMPOTENT)

    def _shares(self, topic: str, of: dict[int, Any]) -> dict[int, dict[int, Any]]:
        """The arguments by node, each with the partitions that the node owns."""
        shares: dict[int, dict[int, Any]] = defaultdict(dict)
        for number, value in of.items():
            shares[self.owner(topic, number)][number] = value
        return shares

    # Kafka groups: clients find the coordinator, which stores offsets at the owners.

    def check_coordinator(self, group: str) -> None:
        node, epoch = self.owners.coordinator_of(group)
        if node != self.owners.node:
            raise NotOwner(topic=GROUPS, partition=0, owner=node, epoch=epoch)

    def commit_group_offsets(
        self, topic: str, group: str, commits: dict[int, Commit], by: Committer
    ) -> Steps[Code]:
        """Check the coordinator before each attempt: the owners refuse the epoch of a former one."""
        coordination, store = self._core.coordination, self._local.store_offsets

        def attempt() -> Steps[Code]:
            node, epoch = self.owners.coordinator_of(group)
            code = Code.NOT_COORDINATOR if node != self.owners.node else coordination.check(group, by)
            if code:
                return code
            protocol = coordination.protocol(group)
            marked = {number: replace(commit, protocol=protocol) for number, commit in commits.items()}
            for owner, share in self._shares(topic, marked).items():
                yield from self.at_node(owner, "store_offsets", store, (topic, group, share, epoch))
            return code

        return self.routed(attempt, IDEMPOTENT)

    def member_group(self, group: str) -> Steps[KafkaGroupState | None]:
        """Describe a group: the coordinator has its members; without members, the node that knows most."""
        self.check_coordinator(group)
        if group in self._core.state.kafka_groups:
            return self._local.member_group(group)
        return self.at_all("member_group", self._local.member_group, None, (group,), merging.member_group)

    def check_delete_group(self, group: str) -> Steps[Code]:
        state = yield from self.member_group(group)
        return self._core.coordination.check_delete(group, state)

    def forget_offsets(self, topic: str, group: str, partitions: list[int]) -> Steps[Code]:
        self.check_coordinator(group)
        code = yield from self._local.forget_offsets(topic, group, [])  # Whether a member reads the topic.
        if not code:
            numbers = dict.fromkeys(partitions)
            yield from self._by_owner(
                "forget_offsets", self._local.forget_offsets, topic, group, numbers, list
            )
        return code

    def redrive(
        self,
        topic: str,
        limit: int,
        rate: float | None,
        dry_run: bool,
        error: str | None,
        group: str | None,
    ) -> Steps[Redrive]:
        """Redrive at one node after the other, so that the limit and the rate hold for all of them."""
        done = Redrive(matched=0, redriven=0, dry_run=dry_run)
        for node in sorted(self.owners.nodes()):
            arguments = (topic, limit - done.matched, rate, dry_run, error, group)
            if limit > done.matched or node == self.owners.node:
                found = yield from self.at_node(node, "redrive", self._local.redrive, arguments)
                done = Redrive(
                    matched=done.matched + found.matched,
                    redriven=done.redriven + found.redriven,
                    dry_run=dry_run,
                )
        return done

    def metrics(self) -> Steps[list[Family]]:
        """The merged metrics of all nodes."""
        asked = [
            self.peer(node).ask("metrics", lambda correlation: native.frame(METRICS, correlation))
            for node in self.owners.nodes()
            if node != self.owners.node
        ]
        families = yield from self._local.metrics()
        for answer in asked:
            with suppress(ServerUnreachable, OutcomeUnknown):  # A node that is down adds none.
                body = yield from self.wait(answer)
                families = merging.metrics(families, decode_body(body, list[merging.Samples]))
        return families


class Split(NamedTuple):
    """Functions that send messages or batches to several owners, append them here, and read the answers."""

    send: Callable[[int, list[Any]], Answer]
    here: Callable[[list[Any]], Steps[list[Any]]]
    read: Callable[[bytes], list[Any]]


def _results(
    works: dict[int, Steps[T]], retry: RetryClass
) -> Steps[tuple[dict[int, T], PenstockError | None]]:
    """The results by node; also the error of a node where an earlier attempt has done everything."""
    found: dict[int, T] = {}
    refusal: PenstockError | None = None
    for node, work in works.items():
        try:
            found[node] = yield from work
        except PenstockError as error:
            if error.code not in retry.done:
                raise
            refusal = error
    return found, refusal


def receipts_of(answers: list[Receipt | PenstockError]) -> list[Receipt]:
    """The receipts, or the first of the errors."""
    receipts: list[Receipt] = []
    for answer in answers:
        if isinstance(answer, PenstockError):
            raise answer
        receipts.append(answer)
    return receipts


def _begun(send: Callable[[int, list[Any]], Answer], node: int, items: list[Any]) -> Answer:
    try:
        return send(node, items)
    except ServerUnreachable as error:  # The node has left the cluster.
        answer = Answer(error)
        answer(b"", error)
        return answer


def _answer(topic: str, outcome: native.PublishOutcome) -> Receipt | PenstockError:
    if outcome.state == native.REFUSED:
        return decode_error(outcome.error)
    duplicate = outcome.state == native.DUPLICATE
    return Receipt(topic, outcome.partition, outcome.offset, outcome.timestamp, None, duplicate)


def _placed(topic: str, message: Message, partitions: int, anywhere: int) -> int:
    number = placed(topic, message, partitions).partition
    return anywhere if number == ANYWHERE else number


def _at_partition(message: Message, number: int) -> Message:
    """The same message for the partition that was chosen."""
    if message.partition == number:
        return message
    return Message(
        message.value,
        message.key,
        message.headers,
        message.priority,
        message.ttl,
        message.delay,
        message.deliver_at,
        message.dedup_id,
        number,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return wire_message(value) if isinstance(value, Message) else plain(value)
