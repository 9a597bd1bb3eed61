"""The same messages through SQS and through everything else."""

from typing import Any

import pytest
from tests.frontends.sqs.clients import bodies

from penstock.errors import InvalidValue
from penstock.model.ids import sent_uuid
from penstock.model.message import Message
from penstock.testing.sqs import SqsServer


def test_a_message_of_sqs_is_an_ordinary_message(server: SqsServer, sqs: Any, queue: str, name: str) -> None:
    given = {"colour": {"DataType": "String", "StringValue": "blue"}}
    sent = sqs.send_message(QueueUrl=queue, MessageBody="body", MessageAttributes=given, MessageGroupId="k")

    [stored] = server.run(server.broker.read(name))

    assert (stored.value, stored.key) == (b"body", b"k")
    assert stored.headers == {"sqs-id": sent["MessageId"], "colour": "blue"}


def test_a_message_from_elsewhere_is_a_message_of_sqs(
    server: SqsServer, sqs: Any, queue: str, name: str
) -> None:
    message = Message(b"\xffbody", "k", {"text": "x", "bytes": b"\xff", "no": ""})
    server.run(server.broker.publish_batch(name, [message]))

    [first] = sqs.receive_message(QueueUrl=queue, MessageAttributeNames=["All"], VisibilityTimeout=0)[
        "Messages"
    ]
    [again] = sqs.receive_message(QueueUrl=queue, AttributeNames=["All"])["Messages"]

    assert first["Body"] == "�body"
    assert first["MessageAttributes"] == {
        "text": {"DataType": "String", "StringValue": "x"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\xff"},
        "no": {"DataType": "String", "StringValue": ""},
    }
    assert first["MessageId"] == again["MessageId"]
    assert again["Attributes"]["MessageGroupId"] == "k"


def test_other_groups_do_not_notice_what_sqs_deletes(
    server: SqsServer, sqs: Any, queue: str, name: str
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="for all")
    [message] = sqs.receive_message(QueueUrl=queue)["Messages"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])

    async def consume() -> list[bytes]:
        async with await server.broker.consumer(name, group="reports", start="earliest") as consumer:
            return [message.value for message in await consumer.receive(max_messages=10)]

    assert server.run(consume()) == [b"for all"]


def test_a_message_is_traced_by_its_message_id_wherever_it_is(
    server: SqsServer, sqs: Any, queue: str, name: str
) -> None:
    first = sqs.send_message(QueueUrl=queue, MessageBody="first")["MessageId"]
    server.advance("1s")
    delayed = sqs.send_message(QueueUrl=queue, MessageBody="delayed", DelaySeconds=900)["MessageId"]
    second = sqs.send_message(QueueUrl=queue, MessageBody="second")["MessageId"]
    server.run(server.broker.publish(name, b"from elsewhere"))
    received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]

    waiting = server.run(server.broker.trace(delayed))
    server.advance("901s")
    found = [server.run(server.broker.trace(each)).id for each in (first, second, delayed)]
    elsewhere = server.run(server.broker.trace(received[2]["MessageId"]))

    assert [event.event for event in waiting.events] == ["scheduled", "due"]
    assert found == [f"{name}:0:0", f"{name}:0:1", f"{name}:0:3"]
    assert elsewhere.id == f"{name}:0:2"


def test_a_message_id_of_no_queue_is_not_traced(server: SqsServer, sqs: Any, queue: str, name: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")

    for identity in (sent_uuid("nothing", 0, 0), sent_uuid(name, 0, 0)):
        with pytest.raises(InvalidValue, match="in a known topic"):
            server.run(server.broker.trace(identity))


def test_the_trace_tells_the_story_of_a_message(server: SqsServer, sqs: Any, queue: str, name: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="story")
    sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)
    [message] = sqs.receive_message(QueueUrl=queue)["Messages"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])

    trace = server.run(server.broker.trace(f"{name}:0:0"))

    assert [event.event for event in trace.events][:5] == [
        "published", "delivered", "nacked", "redelivered", "acked",
    ]  # fmt: skip
    assert bodies(sqs.receive_message(QueueUrl=queue)) == []
