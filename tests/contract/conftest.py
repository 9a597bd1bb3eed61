"""One broker, many ways; the tests do not know which.

    sync, async                  in this process, in memory and on disk
    sync client, async client    over a connection to the real server, which is in virtual time too; once also
                                 to one that asks for keys, as an admin, who must not notice, and once with
                                 publishes on the thread of the caller (client/direct.py)
    over HTTP                    by requests to the same server (over_http.py), as far as that has it
    over gRPC                    by calls of the same server (over_grpc.py), as far as that has it
    over SQS                     by boto3 on the same server (over_sqs.py), as far as a standard queue, or a
                                 FIFO queue, has it
    of a node that owns nothing  the same over a node of a cluster that forwards everything (clustered.py)

The async ones are driven through a loop runner by a facade with the names of
the sync one; the client ones by a facade that also has the server's clock.
Neither adds anything: every call is passed on, awaited if need be, and its
answer wrapped if it has calls of its own.
"""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import pytest
from tests.client.served import VirtualServer
from tests.clustered import ClusterServer
from tests.contract.over_grpc import GrpcServer, connect_over_grpc
from tests.contract.over_http import HttpServer, connect_over_http
from tests.contract.over_sqs import SqsServer, connect_over_sqs

import penstock
from penstock import aio
from penstock.client import direct
from penstock.testing import AsyncTestBroker, ManualClock, TestBroker
from penstock.types import Duration, duration_ms

HANDLES = (
    aio.AsyncBroker,
    aio.AsyncConsumer,
    aio.AsyncTopicsConsumer,
    aio.AsyncProducer,
    aio.AsyncQueue,
    aio.AsyncReceivedMessage,
    aio.AsyncTopicHandle,
    aio.AsyncTransaction,
)

LetPass = Callable[["asyncio.Task[Any]", int], Awaitable[None]]  # Moves a clock while a task waits.


class Awaited:
    """Something of the async API, with its calls awaited."""

    def __init__(self, target: Any, runner: asyncio.Runner, let_pass: LetPass) -> None:
        self._target = target
        self._runner = runner
        self._let_pass = let_pass

    def _wrap(self, answer: Any) -> Any:
        if isinstance(answer, list):
            return [self._wrap(item) for item in answer]
        return Awaited(answer, self._runner, self._let_pass) if isinstance(answer, HANDLES) else answer

    def _run(self, work: Awaitable[Any]) -> Any:
        async def awaited() -> Any:
            return await work

        return self._wrap(self._runner.run(awaited()))

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._target, name)
        if not callable(member):
            return member

        def call(*args: Any, **options: Any) -> Any:
            answer = member(*map(unwrap, args), **options)
            if name == "receive":
                answer = self._waiting(answer, options.get("wait", 0))
            return self._run(answer) if inspect.isawaitable(answer) else self._wrap(answer)

        return call

    async def _waiting(self, work: Coroutine[Any, Any, Any], wait: Any) -> Any:
        task = asyncio.ensure_future(work)
        await self._let_pass(task, duration_ms("wait", wait))
        return await task

    def __iter__(self) -> Iterator[Any]:
        messages = aiter(self._target)
        while True:
            try:
                yield self._run(anext(messages))
            except StopAsyncIteration:
                return

    def __enter__(self) -> Any:
        self._run(self._target.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._run(self._target.__aexit__(kind, error, traceback))


def unwrap(argument: Any) -> Any:
    """What the async API expects in the place of a wrapped thing."""
    if isinstance(argument, list):
        return [unwrap(item) for item in argument]
    return argument._target if isinstance(argument, Awaited) else argument


def virtual(broker: AsyncTestBroker) -> LetPass:
    """Moves the clock of a broker on the same loop, from one thing that is due to the next."""

    async def let_pass(task: "asyncio.Task[Any]", wait_ms: int) -> None:
        until_ms = broker.clock.steady_ms() + wait_ms
        await asyncio.wait([task], timeout=0)
        while not task.done() and (left_ms := until_ms - broker.clock.steady_ms()) >= 0:
            due_ms = broker._core.state.alarms.next_ms() - broker.clock.steady_ms()
            await broker.advance(min(max(due_ms, 0), left_ms) / 1000)

    return let_pass


class Served:
    """A client's broker with the clock of its server; what is wrapped closes both."""

    def __init__(self, client: Any, server: VirtualServer) -> None:
        self._client = client
        self._server = server
        self.clock = server.clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def advance(self, duration: Duration) -> None:
        self._server.advance(duration)

    def consumer(self, *args: Any, **options: Any) -> Any:
        """Without heartbeats: they go by the client's clock, which is real."""
        if not isinstance(self._server, HttpServer | GrpcServer | SqsServer):  # Those have none.
            options["heartbeat"] = False
        made = self._client.consumer(*args, **options)
        passes_time = isinstance(made, Awaited) or isinstance(self._server, SqsServer)
        return made if passes_time else ServedConsumer(made, self._server)

    def close(self) -> None:
        self._client.close()
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class ServedConsumer:
    """A sync client's consumer, whose waits move the server's clock."""

    def __init__(self, consumer: Any, server: VirtualServer) -> None:
        self._consumer = consumer
        self._server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._consumer)

    def receive(self, max_messages: int = 1, wait: Duration = 0) -> Any:
        done = threading.Event()
        clock = threading.Thread(
            target=lambda: self._server.run(self._server.let_pass(done, duration_ms("wait", wait)))
        )
        if wait:
            clock.start()
        try:
            return self._consumer.receive(max_messages, wait)
        finally:
            done.set()
            if wait:
                clock.join()


def served(server: VirtualServer) -> LetPass:
    """Moves the clock of a server on another loop."""

    async def let_pass(task: "asyncio.Task[Any]", wait_ms: int) -> None:
        if not wait_ms:
            return
        done = threading.Event()
        task.add_done_callback(lambda _: done.set())
        passing = server.let_pass(done, wait_ms)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(passing, server._loop))

    return let_pass


class HttpClusterServer(HttpServer, ClusterServer):
    """A node that owns nothing, with its HTTP listener."""


class GrpcClusterServer(GrpcServer, ClusterServer):
    """The same with its gRPC listener."""


class SqsClusterServer(SqsServer, ClusterServer):
    """The same with its SQS listener."""


class World:
    """Where brokers are opened, one after the other, on the same directory and by the same clock."""

    def __init__(self, kind: str, directory: str | None, runner: asyncio.Runner) -> None:
        self._asynchronous = "async" in kind
        self._client = "client" in kind
        self._guarded = "with a key" in kind
        self._over_http = "HTTP" in kind
        self._over_grpc = "gRPC" in kind
        self._over_sqs = "SQS" in kind
        self._fifo = "FIFO" in kind
        self._clustered = "owns nothing" in kind
        self._directory = directory
        self._runner = runner
        self._clock = ManualClock()

    def open(self) -> TestBroker:
        """A broker; whatever its kind, it has all the names of a sync one, which is the point."""
        if self._over_http:
            served = (HttpClusterServer if self._clustered else HttpServer)(self._directory, self._clock)
            return cast("TestBroker", Served(connect_over_http(served), served))
        if self._over_grpc:
            calls = (GrpcClusterServer if self._clustered else GrpcServer)(self._directory, self._clock)
            return cast("TestBroker", Served(connect_over_grpc(calls), calls))
        if self._over_sqs:
            queues = (SqsClusterServer if self._clustered else SqsServer)(self._directory, self._clock)
            return cast("TestBroker", Served(connect_over_sqs(queues, fifo=self._fifo), queues))
        if self._client:
            kind = ClusterServer if self._clustered else VirtualServer
            server = kind(self._directory, self._clock, authentication=self._guarded)
            return cast("TestBroker", Served(self._connect(server), server))
        if not self._asynchronous:
            return TestBroker.open(self._directory, clock=self._clock)
        broker = self._runner.run(AsyncTestBroker.open(self._directory, clock=self._clock))
        return cast("TestBroker", Awaited(broker, self._runner, virtual(broker)))

    def _connect(self, server: VirtualServer) -> Any:
        if not self._asynchronous:
            return penstock.connect(server.url, key=server.key)
        connecting = aio.connect(server.url, key=server.key)
        return Awaited(self._runner.run(connecting.start()), self._runner, served(server))


IN_A_CLUSTER = "of a node that owns nothing"
KINDS = ("sync", "async", "sync client", "async client", f"sync client {IN_A_CLUSTER}")
PLACES = ("in memory", "on disk")
EVERYWHERE = [
    *(f"{kind} {place}" for kind in KINDS for place in PLACES),
    "sync client that publishes directly, in memory",
    "async client with a key, in memory",
    f"async client {IN_A_CLUSTER}, with a key, in memory",
]
OVER_HTTP = "over HTTP"
OVER_GRPC = "over gRPC"
OVER_SQS = "over SQS"
OVER_SQS_FIFO = "over SQS, FIFO"

# What the gRPC API does not have.
TRANSACTIONS = (
    "test_a_transaction_takes_effect_as_a_whole",
    "test_an_aborted_transaction_leaves_nothing_and_its_messages_stay_held",
    "test_a_block_that_raises_aborts_its_transaction",
    "test_a_transaction_that_takes_too_long_is_aborted",
    "test_a_second_transaction_of_an_id_aborts_the_first",
    "test_a_commit_fails_as_a_whole_if_an_acked_message_was_lost",
    "test_messages_of_a_transaction_have_no_delay",
)
# What the HTTP API does not have, by the tests that need it.
NOT_OVER_HTTP = {
    "test_values_are_read_by_the_schema_of_their_topic": "schemas; there is Confluent's API",
    "test_an_ack_may_publish": "outputs of an ack",
    "test_a_stream_group_reads_in_order_and_commits": "stream groups",
    "test_stream_consumers_that_wait_hear_of_a_rebalance_and_commit_what_is_left": "stream groups",
    "test_a_producer_is_idempotent": "idempotent producers; there is Idempotency-Key",
    "test_a_log_is_fetched_as_it_lies_and_a_reader_says_how_far_it_is": "record batches",
    "test_what_retention_deleted_is_put_back_for_a_group": "record batches",
    "test_what_became_of_messages_is_told_in_ranges": "ranges",
    "test_a_list_is_not_the_name_of_a_topic": "names that are not text",
    "test_what_is_staged_is_published_once_by_version": "record batches",
}
# The same for the gRPC API.
NOT_OVER_GRPC = {
    "test_values_are_read_by_the_schema_of_their_topic": "schemas",
    "test_a_producer_is_idempotent": "idempotent producers; there are dedup ids",
    "test_a_log_is_fetched_as_it_lies_and_a_reader_says_how_far_it_is": "record batches",
    "test_what_retention_deleted_is_put_back_for_a_group": "record batches",
    "test_a_list_is_not_the_name_of_a_topic": "names that are not text",
    "test_what_is_staged_is_published_once_by_version": "record batches",
    "test_queues_are_listed_and_got_apart_from_topics": "queues apart from topics",
    "test_the_dead_letters_of_a_queue_are_in_a_queue": "queues apart from topics",
    **dict.fromkeys(TRANSACTIONS, "transactions"),
}
# Why SQS does not make a claim: what its requests, or its answers, have no word for.
OFFSETS = "offsets and reading by offset"
ERRORS = "errors of failures, back-off by the server"
ONE_GROUP = "a queue has one group"
SETTINGS = "settings such as partitions and depth_max"
ONE_RECEIVE = "a FIFO queue returns several messages of a message group in one receive"
OLDER_HANDLES = "a standard queue takes an older receipt handle of a message"
FIFO_ONLY = "only FIFO queues have an order and deduplication"
NOT_OVER_SQS = {
    "test_values_are_read_by_the_schema_of_their_topic": "schemas",
    "test_what_is_published_is_received": "priorities and partitions",
    "test_a_batch_is_published_in_order": OFFSETS,
    "test_objects_and_text_are_published_and_read": OFFSETS,
    "test_a_message_block_answers": ERRORS,
    "test_a_failing_message_is_retried_and_then_buried": ERRORS,
    "test_a_rejected_message_is_buried_at_once": "a rejection",
    "test_a_second_answer_is_refused": "a second delete succeeds",
    "test_groups_are_independent": ONE_GROUP,
    "test_the_highest_lane_is_first": "priorities",
    "test_equal_keys_of_an_ordered_group_wait_for_each_other": ONE_RECEIVE,
    "test_what_outlived_its_time_is_not_delivered": "a time to live of one message",
    "test_a_delayed_message_comes_when_it_is_due": "cancelling and rescheduling",
    "test_a_recurring_message_comes_again_and_again": "recurring messages",
    "test_a_group_can_be_moved_and_purged": "seeking",
    "test_a_group_tells_how_it_is_getting_on": ERRORS,
    "test_dead_letters_are_counted_by_error": ERRORS,
    "test_a_broker_tells_its_size": "statistics of the broker",
    "test_a_message_that_is_not_due_has_a_trace": "traces",
    "test_a_full_topic_refuses": SETTINGS,
    "test_an_ack_may_publish": "outputs of an ack",
    "test_at_most_once_is_settled_on_delivery": "delivery at most once",
    "test_a_stream_group_reads_in_order_and_commits": "stream groups",
    "test_stream_consumers_that_wait_hear_of_a_rebalance_and_commit_what_is_left": "stream groups",
    "test_a_producer_is_idempotent": "idempotent producers",
    "test_gomqs_words": ONE_GROUP,
    "test_a_trace_tells_the_journey": "traces",
    "test_looking_changes_nothing": OFFSETS,
    "test_topics_come_and_go": SETTINGS,
    "test_whoever_publishes_to_a_missing_topic_creates_it": "queues are created by CreateQueue only",
    "test_whoever_consumes_a_missing_topic_creates_it": "queues are created by CreateQueue only",
    "test_a_topic_that_was_deleted_is_created_again_by_the_next_publish": "as above",
    "test_looking_at_a_missing_topic_does_not_create_it": OFFSETS,
    "test_a_topic_may_be_created_twice_if_that_is_said": SETTINGS,
    "test_internal_topics_are_topics_that_are_not_listed": SETTINGS,
    "test_everything_is_there_after_a_restart": "rejections; see tests/frontends/sqs/test_restarts.py",
    "test_a_log_is_fetched_as_it_lies_and_a_reader_says_how_far_it_is": "record batches",
    "test_what_retention_deleted_is_put_back_for_a_group": "record batches",
    "test_what_became_of_messages_is_told_in_ranges": OFFSETS,
    "test_what_is_staged_is_published_once_by_version": "record batches",
    "test_messages_have_no_headers_but_those_they_were_published_with": "a time to live of one message",
    "test_queues_are_listed_and_got_apart_from_topics": "queues apart from topics",
    "test_the_dead_letters_of_a_queue_are_in_a_queue": "queues apart from topics",
    "test_a_list_is_not_the_name_of_a_topic": "names that are not text",
    **dict.fromkeys(TRANSACTIONS, "transactions"),
}
NOT_OVER_SQS_STANDARD = {
    **NOT_OVER_SQS,
    "test_an_unanswered_message_comes_again": OLDER_HANDLES,
    "test_messages_of_one_topic_are_settled_although_those_of_another_are_lost": OLDER_HANDLES,
    "test_a_repeat_within_the_window_is_a_duplicate": FIFO_ONLY,
    "test_equal_keys_of_an_ordered_group_are_delivered_one_after_the_other": FIFO_ONLY,
}
NOT_OVER_SQS_FIFO = {
    **NOT_OVER_SQS,
    "test_a_message_with_a_delay_waits_for_its_time": "a delay of one message; a FIFO queue has one for all",
    "test_what_one_kind_of_broker_wrote_the_other_reads": "names without .fifo",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each claim for each kind of broker that makes it."""
    over_http = [OVER_HTTP, f"{OVER_HTTP} {IN_A_CLUSTER}"]
    over_grpc = [OVER_GRPC, f"{OVER_GRPC} {IN_A_CLUSTER}"]
    name = metafunc.definition.name
    remote = [] if name in NOT_OVER_HTTP else over_http
    places = [f"{kind} {place}" for kind in remote for place in PLACES]
    more = over_grpc if name not in NOT_OVER_GRPC else []
    for kind, missing in ((OVER_SQS, NOT_OVER_SQS_STANDARD), (OVER_SQS_FIFO, NOT_OVER_SQS_FIFO)):
        if name not in missing:
            more = [*more, kind, f"{kind} {IN_A_CLUSTER}"]
    places += [f"{kind} in memory" for kind in more]
    remote = [*remote, *more]
    if "broker" in metafunc.fixturenames:
        metafunc.parametrize("broker", [*EVERYWHERE, *places], indirect=True)
    elif "world" in metafunc.fixturenames:
        metafunc.parametrize("world", [*KINDS, *remote], indirect=True)


@pytest.fixture
def broker(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TestBroker]:
    """An open broker of each kind."""
    if "directly" in request.param:
        monkeypatch.setattr(direct, "DIRECT_MIN", 1)
        monkeypatch.setattr(direct, "PAUSE_MS", 0)
    directory = str(tmp_path) if "disk" in request.param else None
    with asyncio.Runner() as runner:
        with World(request.param, directory, runner).open() as opened:
            yield opened


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A disk on which brokers of a kind can be opened again and again."""
    with asyncio.Runner() as runner:
        yield World(request.param, str(tmp_path), runner)
