"""Requests that are signed with an API key, to a server that asks for one."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from tests.frontends.sqs.clients import connect, post, refusal, send

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.clock import Clock, SystemClock
from penstock.config.server import LimitSettings
from penstock.frontends.listener import Connections
from penstock.frontends.security.gateway import AuthGateway
from penstock.frontends.sqs.call import SqsShared
from penstock.frontends.sqs.server import SqsListener
from penstock.model.access import Grant, signing_secret
from penstock.testing import ManualClock
from penstock.wire.sqs.signatures import (
    SignedRequest,
    is_signed_by,
    read_authorization,
    signing_key,
)


class Place:
    def __init__(self, broker: EmbeddedAsyncBroker, shared: SqsShared, url: str) -> None:
        self.broker = broker
        self.shared = shared
        self.url = url

    async def client(self, *grants: Grant, signing: bool = True) -> Any:
        made = await self.broker.create_key("app", list(grants), signing=signing)
        return connect(self.url, made.id, signing_secret(made.key.split("_", 2)[2]))


@asynccontextmanager
async def secured(clock: Clock | None = None) -> AsyncIterator[Place]:
    async with await EmbeddedAsyncBroker.open() as broker:
        gateway = AuthGateway(broker, authentication=True)
        listener = SqsListener(broker, LimitSettings(), Connections(100), gateway, clock=clock)
        server = await asyncio.get_running_loop().create_server(listener.connect, "127.0.0.1", 0)
        yield Place(broker, listener.shared, "http://{}:{}".format(*server.sockets[0].getsockname()[:2]))
        server.close()
        await listener.drain()
        gateway.close()


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with secured() as made:
        yield made


async def beside(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A blocking client beside the loop of the server."""
    return await asyncio.to_thread(call, *args, **options)


async def test_a_key_that_signs_does_what_its_grants_allow(place: Place) -> None:
    admin = await place.client(Grant(role="admin"))
    producer = await place.client(Grant(role="producer", topics=("jobs",)))
    url = (await beside(admin.create_queue, QueueName="jobs"))["QueueUrl"]
    await beside(admin.create_queue, QueueName="others")

    sent = await beside(producer.send_message, QueueUrl=url, MessageBody="work")
    refused = await beside(refusal, producer.receive_message, QueueUrl=url)
    listed = await beside(producer.list_queues)
    [message] = (await beside(admin.receive_message, QueueUrl=url, AttributeNames=["SenderId"]))["Messages"]

    assert message["MessageId"] == sent["MessageId"]
    assert message["Attributes"]["SenderId"] in {key.id for key in await place.broker.keys()}
    assert refused[0] == "AccessDenied"
    assert listed["QueueUrls"] == [url]


async def test_a_producer_learns_the_id_of_the_message_that_it_repeats(place: Place) -> None:
    admin = await place.client(Grant(role="admin"))
    producer = await place.client(Grant(role="producer", topics=("jobs.fifo",)))
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = (await beside(admin.create_queue, QueueName="jobs.fifo", Attributes=attributes))["QueueUrl"]

    first = await beside(producer.send_message, QueueUrl=url, MessageBody="x", MessageGroupId="g")
    again = await beside(producer.send_message, QueueUrl=url, MessageBody="x", MessageGroupId="g")

    assert first["MessageId"] == again["MessageId"]


async def test_forged_signatures_are_refused(place: Place) -> None:
    made = await place.broker.create_key("app", [Grant(role="admin")], signing=True)
    secret = signing_secret(made.key.split("_", 2)[2])
    plain = await place.broker.create_key("plain", [Grant(role="admin")])

    async def code(key_id: str, secret: str) -> str:
        client = await beside(connect, place.url, key_id, secret)
        return str((await beside(refusal, client.list_queues))[0])

    assert await code(made.id, secret + "x") == "SignatureDoesNotMatch"
    assert await code(made.id, made.key) == "SignatureDoesNotMatch"
    assert await code("0" * 12, secret) == "InvalidClientTokenId"
    assert await code(plain.id, signing_secret(plain.key.split("_", 2)[2])) == "InvalidClientTokenId"
    await place.broker.revoke_key(made.id)
    assert await code(made.id, secret) == "InvalidClientTokenId"


async def test_a_request_without_a_signature_or_with_another_body_is_refused(place: Place) -> None:
    headers = {"x-amz-target": "AmazonSQS.ListQueues"}
    client = await place.client(Grant(role="admin"))
    seen: list[Any] = []
    client.meta.events.register("before-send.sqs.*", lambda request, **_: seen.append(request))
    await beside(client.list_queues, QueueNamePrefix="a")
    signed = {
        name: value if isinstance(value, str) else value.decode() for name, value in seen[0].headers.items()
    }

    bare = await beside(post, place.url, b"{}", headers)
    genuine = await beside(post, place.url, seen[0].body, signed)
    changed = await beside(post, place.url, seen[0].body.replace(b'"a"', b'"b"'), signed)
    elsewhere = await beside(post, place.url, seen[0].body, signed, "/other")

    assert (bare[0], b"MissingAuthenticationToken" in bare[1]) == (403, True)
    assert genuine[0] == 200
    assert (changed[0], b"SignatureDoesNotMatch" in changed[1]) == (403, True)
    assert elsewhere[0] == 403


async def test_signing_keys_are_remembered_only_for_genuine_requests(place: Place) -> None:
    made = await place.broker.create_key("app", [Grant(role="admin")], signing=True)
    secret = signing_secret(made.key.split("_", 2)[2])

    forger = await beside(connect, place.url, made.id, "guessed", "some-region")
    forged = await beside(refusal, forger.list_queues)
    after_forged = len(place.shared.signing_keys)
    request = AWSRequest("GET", f"{place.url}/?Action=ListQueues")
    SigV4Auth(Credentials(made.id, secret), "sqs", "r" * 30_000).add_auth(request)
    unlikely = await beside(send, place.url, "GET", "/?Action=ListQueues", dict(request.headers))
    after_unlikely = len(place.shared.signing_keys)
    owner = await beside(connect, place.url, made.id, secret)
    await beside(owner.list_queues)

    assert (forged[0], unlikely[0]) == ("SignatureDoesNotMatch", 200)
    assert (after_forged, after_unlikely, len(place.shared.signing_keys)) == (0, 0, 1)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_header_that_is_not_signed_cannot_name_the_action(place: Place, method: str) -> None:
    admin = await place.client(Grant(role="admin"))
    url = (await beside(admin.create_queue, QueueName="jobs"))["QueueUrl"]
    made = await place.broker.create_key("app", [Grant(role="admin")], signing=True)
    path = f"{urlsplit(url).path}?Action=ListQueues"
    request = AWSRequest(method, place.url + path)
    SigV4Auth(Credentials(made.id, signing_secret(made.key.split("_", 2)[2])), "sqs", "us-east-1").add_auth(
        request
    )

    forged = {**dict(request.headers), "x-amz-target": "AmazonSQS.DeleteQueue"}
    answer = await beside(send, place.url, method, path, forged)

    assert (answer[0], b"SignatureDoesNotMatch" in answer[1]) == (403, True)
    assert (await beside(admin.list_queues))["QueueUrls"] == [url]


async def test_a_move_task_is_cancelled_by_consumers_alone_and_ends_with_its_key(place: Place) -> None:
    admin = await place.client(Grant(role="admin"))
    reader = await place.client(Grant(role="reader"))
    key = await place.broker.create_key("mover", [Grant(role="admin")], signing=True)
    mover = connect(place.url, key.id, signing_secret(key.key.split("_", 2)[2]))
    letters = (await beside(admin.create_queue, QueueName="dead"))["QueueUrl"]
    source, target = (f"arn:aws:sqs:us-east-1:123456789012:{name}" for name in ("dead", "others"))
    policy = json.dumps({"deadLetterTargetArn": source, "maxReceiveCount": 1})
    await beside(admin.create_queue, QueueName="jobs", Attributes={"RedrivePolicy": policy})
    await beside(admin.create_queue, QueueName="others")
    await place.broker.publish_batch("dead", [b"letter"] * 100)

    started = await beside(
        mover.start_message_move_task,
        SourceArn=source,
        DestinationArn=target,
        MaxNumberOfMessagesPerSecond=1,
    )
    refused = await beside(refusal, reader.cancel_message_move_task, TaskHandle=started["TaskHandle"])
    [running] = (await beside(admin.list_message_move_tasks, SourceArn=source))["Results"]
    await place.broker.revoke_key(key.id)
    [ended] = (await beside(admin.list_message_move_tasks, SourceArn=source))["Results"]

    assert (refused[0], running["Status"]) == ("AccessDenied", "RUNNING")
    assert (ended["Status"], "revoked" in ended["FailureReason"]) == ("FAILED", True)
    await place.shared.moves.wait()
    [left] = (await beside(admin.list_message_move_tasks, SourceArn=source))["Results"]
    assert left["Status"] == "FAILED"
    assert len((await beside(admin.receive_message, QueueUrl=letters))["Messages"]) == 1


async def test_a_request_that_was_signed_long_ago_is_refused() -> None:
    clock = ManualClock(SystemClock().wall_ms() + 16 * 60_000)
    async with secured(clock) as place:
        client = await place.client(Grant(role="admin"))

        refused = await beside(refusal, client.list_queues)

    assert refused[0] == "RequestExpired"


def test_the_example_of_the_specification() -> None:
    """Of the AWS documentation: "Signature Version 4 signing process", with its published result."""
    key = signing_key("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "20150830", "us-east-1", "iam")
    shown = read_authorization(
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request,"
        " SignedHeaders=content-type;host;x-amz-date,"
        " Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    )
    headers = {
        b"content-type": b"application/x-www-form-urlencoded; charset=utf-8",
        b"host": b"iam.amazonaws.com",
        b"x-amz-date": b"20150830T123600Z",
    }
    assert shown is not None

    request = SignedRequest("GET", "/", "Action=ListUsers&Version=2010-05-08", headers, b"")

    assert key.hex() == "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"
    assert is_signed_by(key, shown, request)
    assert not is_signed_by(key, shown, request._replace(body=b"x"))
    assert not is_signed_by(key, shown._replace(headers=["x-amz-date"]), request)


@pytest.mark.parametrize(
    "text",
    ["", "Bearer x", "AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature=x"],
)
def test_other_headers_are_no_signature(text: str) -> None:
    assert read_authorization(text) is None
