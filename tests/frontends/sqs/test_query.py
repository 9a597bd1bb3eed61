"""The query protocol, as older SDKs and command lines speak it."""

import urllib.request
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest
from tests.frontends.sqs.clients import bodies, form, post, send, texts

from penstock.testing.sqs import SqsServer


def test_a_message_through_the_query_protocol(server: SqsServer, name: str) -> None:
    _, created = form(
        server.url,
        Action="CreateQueue",
        QueueName=name,
        **{
            "Attribute.1.Name": "VisibilityTimeout",
            "Attribute.1.Value": "7",
            "Tag.1.Key": "k",
            "Tag.1.Value": "v",
        },
    )
    [url] = texts(created, "QueueUrl")
    path = url.removeprefix(server.url)
    _, sent = form(
        server.url,
        path,
        Action="SendMessage",
        Version="2012-11-05",
        MessageBody="<&> \r\n",
        **{
            "MessageAttribute.1.Name": "n",
            "MessageAttribute.1.Value.DataType": "Number",
            "MessageAttribute.1.Value.StringValue": "5",
            "MessageAttribute.2.Name": "b",
            "MessageAttribute.2.Value.DataType": "Binary",
            "MessageAttribute.2.Value.BinaryValue": "AP8=",
        },
    )
    _, received = form(
        server.url,
        path,
        Action="ReceiveMessage",
        **{"AttributeName.1": "All", "MessageAttributeName.1": "All"},
    )
    [handle] = texts(received, "ReceiptHandle")
    status, deleted = form(server.url, path, Action="DeleteMessage", ReceiptHandle=handle)

    assert texts(received, "Body") == ["<&> \r\n"]
    assert texts(received, "MessageId") == texts(sent, "MessageId")
    assert texts(received, "MD5OfMessageAttributes") == texts(sent, "MD5OfMessageAttributes")
    assert (texts(received, "StringValue"), texts(received, "BinaryValue")) == (["5"], ["AP8="])
    assert {"SentTimestamp", "ApproximateReceiveCount", "n", "b"} <= set(texts(received, "Name"))
    assert status == 200
    assert len(texts(deleted, "RequestId")) == 1
    _, found = form(
        server.url, Action="GetQueueAttributes", QueueUrl=url, **{"AttributeName.1": "VisibilityTimeout"}
    )
    assert texts(found, "Value") == ["7"]
    assert texts(form(server.url, Action="ListQueueTags", QueueUrl=url)[1], "Key") == ["k"]


def test_batches_and_lists_in_xml(server: SqsServer, queue: str) -> None:
    fields = {
        f"SendMessageBatchRequestEntry.{number}.{name}": value
        for number, (key, body, delay) in enumerate([("a", "1", "0"), ("b", "2", "901")], 1)
        for name, value in (("Id", key), ("MessageBody", body), ("DelaySeconds", delay))
    }

    _, sent = form(server.url, Action="SendMessageBatch", QueueUrl=queue, **fields)
    _, listed = form(server.url, Action="ListQueues")

    assert texts(sent, "Id") == ["a", "b"]
    assert (texts(sent, "MD5OfMessageBody"), texts(sent, "SenderFault")) == (
        ["c4ca4238a0b923820dcc509a6f75849b"],
        ["true"],
    )
    assert queue in texts(listed, "QueueUrl")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"Action": "GetQueueUrl", "QueueName": "nobody"}, "AWS.SimpleQueueService.NonExistentQueue"),
        ({"Action": "Dance"}, "InvalidAction"),
        ({"Version": "2012-11-05"}, "MissingAction"),
        ({"Action": "SendMessage", "MessageBody": "x"}, "MissingParameter"),
        ({"Action": "ReceiveMessage", "QueueUrl": "q", "MaxNumberOfMessages": "ten"}, "MalformedQueryString"),
        ({"Action": "ListQueues", "Attribute.x.y": "1"}, "MalformedQueryString"),
        ({"Action": "SendMessage", "MessageAttribute.1.Name.x": "1"}, "MalformedQueryString"),
        ({"Action": "TagQueue", "Tag.1.Key.x": "1", "Tag.1.Value": "1"}, "MalformedQueryString"),
        ({"Action": "ListQueues", "a.b": "1", "a": "2"}, "MalformedQueryString"),
        ({"Action": "ListQueues", ".".join("a" * 20): "1"}, "MalformedQueryString"),
    ],
)
def test_errors_in_xml(server: SqsServer, fields: dict[str, str], code: str) -> None:
    status, document = form(server.url, **fields)

    assert status == 400
    assert (texts(document, "Code"), texts(document, "Type")) == ([code], ["Sender"])


def test_a_get_request_with_everything_in_its_url(server: SqsServer, queue: str, name: str) -> None:
    with urllib.request.urlopen(f"{server.url}/?Action=GetQueueUrl&QueueName={name}") as answer:
        assert answer.status == 200
        assert texts(ElementTree.fromstring(answer.read()), "QueueUrl") == [queue]


@pytest.mark.parametrize(
    "query",
    [
        "Action=SendMessage&MessageBody=x",
        "Action=ReceiveMessage",
        "Action=DeleteQueue",
        "Action=DeleteQueue&Action=ListQueues",
    ],
)
def test_a_get_request_changes_nothing(server: SqsServer, sqs: Any, queue: str, query: str) -> None:
    """A web page can send it to a server on the reader's machine, without an origin."""
    sqs.send_message(QueueUrl=queue, MessageBody="there before")

    status, body = send(server.url, "GET", f"{urlsplit(queue).path}?{query}", {})

    assert (status, b"InvalidAction" in body) == (400, True)
    found = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
    assert bodies(found) == ["there before"]


def test_json_that_is_none_is_refused_as_json(server: SqsServer) -> None:
    headers = {"x-amz-target": "AmazonSQS.ListQueues", "content-type": "application/x-amz-json-1.0"}

    status, body = post(server.url, b"{", headers)

    assert status == 400
    assert b"com.amazonaws.sqs#SerializationException" in body


def test_the_target_of_the_json_protocol_needs_a_post_request(server: SqsServer, queue: str) -> None:
    status, body = send(
        server.url, "GET", urlsplit(queue).path, {"x-amz-target": "AmazonSQS.DeleteQueue"}, b"{}"
    )

    assert (status, b"InvalidAction" in body) == (400, True)
