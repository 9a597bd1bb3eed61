"""Clients that send anything, leave in the middle, or are a web page."""

import json
import random
import socket
import time
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.frontends.sqs.clients import bodies, post
from tests.server.process import until

from penstock.api.work import Work
from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.config.server import LimitSettings
from penstock.errors import DiskFull
from penstock.frontends.http.consumers.long_polls import Disconnection
from penstock.frontends.listener import Connections
from penstock.frontends.security.guarded import BrokerOperations
from penstock.frontends.security.identity import NOBODY
from penstock.frontends.sqs.actions.moves import start_message_move_task
from penstock.frontends.sqs.actions.queues import create_queue, purge_queue
from penstock.frontends.sqs.actions.receiving import receive_message
from penstock.frontends.sqs.call import ATTEMPT_MS_MAX, ReceiveAttempts, SqsCall
from penstock.frontends.sqs.server import SqsListener
from penstock.model.info import Cancelled
from penstock.testing import ManualClock
from penstock.testing.sqs import SqsServer
from penstock.wire.sqs.answers import IncomingMessage, ReceivedMessages
from penstock.wire.sqs.requests import ACTIONS, CreateQueue, PurgeQueue, ReceiveMessage, StartMessageMoveTask

PATIENCE_S = 60
JSON = {"content-type": "application/x-amz-json-1.0"}


def request(server: SqsServer, action: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    return post(server.url, body, {**JSON, "x-amz-target": f"AmazonSQS.{action}", **headers})


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_answers_whatever_it_is_asked(server: SqsServer, queue: str, action: str) -> None:
    values: list[Any] = [None, "", "x", 0, -1, 10**30, [], ["x"], {}, {"a": "b"}, True, 1.5, "\ud800", queue]
    chooser = random.Random(action)
    fields = [field.encode_name for field in msgspec.structs.fields(ACTIONS[action])]

    for _ in range(30):
        body = {name: chooser.choice(values) for name in fields if chooser.random() < 0.7}
        status, answer = request(server, action, json.dumps({"QueueUrl": queue, **body}).encode())

        assert status in (200, 400, 403, 404), answer


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"Entries": [1]}', b"[" * 100_000, b'{"QueueUrl": 1}'],
)
def test_bodies_that_are_no_request_are_refused(server: SqsServer, body: bytes) -> None:
    status, _ = request(server, "SendMessageBatch", body)

    assert status == 400


def test_a_body_that_is_too_large_is_not_read(server: SqsServer) -> None:
    host, port = urlsplit(server.url).netloc.split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as made:
        made.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.ListQueues\r\n"
                     b"Content-Length: 999999999\r\n\r\n")  # fmt: skip
        answer = made.recv(65536)

    assert b" 413 " in answer.splitlines()[0]


def test_a_page_of_another_site_is_refused(server: SqsServer) -> None:
    origin, _ = request(server, "ListQueues", b"{}", origin="https://evil.example")
    host, _ = request(server, "ListQueues", b"{}", host="evil.example")

    assert (origin, host) == (403, 421)


def test_a_client_that_leaves_in_a_long_poll_keeps_nothing(
    server: SqsServer, sqs: Any, queue: str, name: str
) -> None:
    host, port = urlsplit(server.url).netloc.split(":")
    body = json.dumps({"QueueUrl": queue, "WaitTimeSeconds": 20, "VisibilityTimeout": 1000}).encode()
    head = (f"POST / HTTP/1.1\r\nHost: {host}:{port}\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\n"
            f"Content-Length: {len(body)}\r\n\r\n")  # fmt: skip
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as made:
        made.sendall(head.encode() + body)
        until(lambda: waiting(server, name))

    sqs.send_message(QueueUrl=queue, MessageBody="for somebody else")

    found: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    while not found and time.monotonic() < deadline:
        found = bodies(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=1))
    assert found == ["for somebody else"]


class Leaving(Disconnection):
    """A connection that is lost after messages were leased for it, and before they are sent."""

    looks = 0

    @property
    def gone(self) -> bool:
        self.looks += 1
        return self.looks > 1

    @gone.setter
    def gone(self, value: bool) -> None:
        pass


async def test_what_cannot_be_sent_is_given_back_and_does_not_count() -> None:
    async with await EmbeddedAsyncBroker.open() as broker:
        listener = SqsListener(broker, LimitSettings(), Connections(10))

        def call(lost: Disconnection) -> SqsCall:
            made = SqsCall(listener.shared, "/", "http://localhost", "", lost)
            made.operations = listener.shared.gateway.operations(NOBODY)
            return made

        present = call(Disconnection())
        await create_queue(present, CreateQueue(queue_name="jobs"))
        await broker.publish("jobs", b"work")
        lost = await receive_message(call(Leaving()), ReceiveMessage(queue_url="jobs"))
        [message] = (
            await receive_message(present, ReceiveMessage(queue_url="jobs", attribute_names=["All"]))
        ).messages
        listener.abort()

    assert lost.messages == []
    assert message.attributes["ApproximateReceiveCount"] == "1"


class FullDisk:
    """Operations of a broker that has no room to write a cancellation or a new consumer."""

    def __init__(self, operations: Any) -> None:
        self._operations = operations
        self._left = 2

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operations, name)

    def cancel(self, schedule_id: str) -> Work[Cancelled]:
        self._left -= 1
        assert self._left, "it was tried again"
        raise DiskFull(path="intents")
        yield

    def batch_consumer(self, *_: object) -> Work[Any]:
        raise DiskFull(path="/secret/topics/dead/0/journal")
        yield


async def test_a_purge_ends_if_delayed_messages_cannot_be_cancelled() -> None:
    async with await EmbeddedAsyncBroker.open() as broker:
        listener = SqsListener(broker, LimitSettings(), Connections(10))
        call = SqsCall(listener.shared, "/", "http://localhost", "", Disconnection())
        call.operations = listener.shared.gateway.operations(NOBODY)
        await create_queue(call, CreateQueue(queue_name="jobs"))
        await broker.publish("jobs", b"work", delay="10m")
        call.operations = cast("BrokerOperations", FullDisk(call.operations))

        with pytest.raises(DiskFull):
            await purge_queue(call, PurgeQueue(queue_url="jobs"))
        listener.abort()


async def test_the_failure_of_a_move_task_names_no_path_of_the_machine() -> None:
    async with await EmbeddedAsyncBroker.open() as broker:
        listener = SqsListener(broker, LimitSettings(), Connections(10))
        call = SqsCall(listener.shared, "/", "http://localhost", "", Disconnection())
        call.operations = listener.shared.gateway.operations(NOBODY)
        await create_queue(call, CreateQueue(queue_name="dead"))
        policy = json.dumps({"deadLetterTargetArn": call.arn("dead"), "maxReceiveCount": 1})
        await create_queue(call, CreateQueue(queue_name="jobs", attributes={"RedrivePolicy": policy}))
        call.operations = cast("BrokerOperations", FullDisk(call.operations))

        await start_message_move_task(call, StartMessageMoveTask(source_arn=call.arn("dead")))
        await listener.shared.moves.wait()
        [task] = listener.shared.moves.of_source("dead")
        listener.abort()

    assert task.status == "FAILED"
    assert "'topics/dead/0/journal'" in (task.failure or "")


def waiting(server: SqsServer, name: str) -> bool:
    """Whether a consumer of the queue is there."""

    async def consumers() -> list[str]:
        return (await server.broker.describe_group(name, "sqs")).consumers

    return bool(server.run(consumers()))


@pytest.mark.parametrize("handle", ["", "x", "A" * 44, "A" * 4096, "ä" * 44, "=" * 44])
def test_forged_handles_are_invalid(server: SqsServer, queue: str, handle: str) -> None:
    body = json.dumps({"QueueUrl": queue, "ReceiptHandle": handle}).encode()

    status, answer = request(server, "DeleteMessage", body)

    assert status == 400
    assert b"ReceiptHandleIsInvalid" in answer or (not handle and b"MissingParameter" in answer)


def test_attempts_are_remembered_up_to_a_number_of_bytes_and_an_age() -> None:
    clock = ManualClock(0)
    attempts = ReceiveAttempts(clock)
    body = "x" * 1024 * 1024
    for number in range(100):
        message = IncomingMessage(message_id="", receipt_handle="", md5_of_body="", body=body)
        attempts.add("jobs.fifo", str(number), ReceivedMessages(messages=[message]))
    attempts.discard("jobs.fifo", "not there")

    kept = [number for number in range(100) if attempts.get("jobs.fifo", str(number)) is not None]
    clock.move_to(ATTEMPT_MS_MAX)

    assert kept == list(range(37, 100))
    assert attempts.get("jobs.fifo", "99") is None
