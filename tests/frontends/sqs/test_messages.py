from typing import Any

import pytest
from tests.frontends.sqs.clients import bodies, refusal

from penstock.testing.sqs import SqsServer


def count(sqs: Any, queue: str, what: str = "") -> int:
    name = f"ApproximateNumberOfMessages{what}"
    return int(sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=[name])["Attributes"][name])


def test_a_message_comes_back_as_it_was_sent(sqs: Any, queue: str) -> None:
    given = {
        "text": {"DataType": "String", "StringValue": "größe <&>"},
        "number": {"DataType": "Number.int", "StringValue": "-12.5e3"},
        "bytes": {"DataType": "Binary.png", "BinaryValue": b"\x00\xff"},
        "sqs-id": {"DataType": "String", "StringValue": "the user's own"},
    }
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5"}}

    sent = sqs.send_message(
        QueueUrl=queue, MessageBody="Grüße\r\n😀", MessageAttributes=given, MessageSystemAttributes=trace
    )
    [message] = sqs.receive_message(
        QueueUrl=queue, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
    )["Messages"]

    assert message["Body"] == "Grüße\r\n😀"  # boto3 has compared the MD5 of the body, too.
    assert message["MessageAttributes"] == given
    assert message["MessageId"] == sent["MessageId"]
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["Attributes"]["AWSTraceHeader"] == "Root=1-5"
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [([], []), (["All"], ["a", "bc.x", "bc.y"]), (["bc.*"], ["bc.x", "bc.y"]), (["a", "none"], ["a"])],
)
def test_attributes_are_returned_as_far_as_they_are_asked_for(
    sqs: Any, queue: str, wanted: list[str], found: list[str]
) -> None:
    given = {name: {"DataType": "String", "StringValue": "x"} for name in ("a", "bc.x", "bc.y")}
    sqs.send_message(QueueUrl=queue, MessageBody="body", MessageAttributes=given)

    [message] = sqs.receive_message(QueueUrl=queue, MessageAttributeNames=wanted)["Messages"]

    assert sorted(message.get("MessageAttributes", {})) == found
    assert ("MD5OfMessageAttributes" in message) == bool(found)


def test_a_message_that_is_not_deleted_is_visible_again_after_its_timeout(
    server: SqsServer, sqs: Any, queue: str
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="work")
    sqs.receive_message(QueueUrl=queue, VisibilityTimeout=10)

    server.advance("9s")
    early = sqs.receive_message(QueueUrl=queue)
    server.advance("1s")
    [late] = sqs.receive_message(QueueUrl=queue, AttributeNames=["ApproximateReceiveCount"])["Messages"]

    assert bodies(early) == []
    assert late["Attributes"] == {"ApproximateReceiveCount": "2"}


def test_the_visibility_timeout_of_one_message_of_many_is_changed_alone(
    server: SqsServer, sqs: Any, queue: str
) -> None:
    for body in "abc":
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    handles = [
        message["ReceiptHandle"]
        for message in sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    ]

    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handles[0], VisibilityTimeout=0)
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handles[1], VisibilityTimeout=60)
    now = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=1000)
    server.advance("30s")
    later = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=1000)
    server.advance("30s")
    last = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)

    assert (bodies(now), bodies(later), bodies(last)) == (["a"], ["c"], ["b"])


def test_messages_received_without_a_timeout_stay_visible(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="look")

    [first] = sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)["Messages"]
    [second] = sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)["Messages"]

    assert first["ReceiptHandle"] != second["ReceiptHandle"]
    assert (count(sqs, queue), count(sqs, queue, "NotVisible")) == (1, 0)


def test_an_older_handle_deletes_too_and_deleting_twice_succeeds(
    server: SqsServer, sqs: Any, queue: str
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="work")
    [first] = sqs.receive_message(QueueUrl=queue, VisibilityTimeout=1)["Messages"]
    server.advance("1s")
    [second] = sqs.receive_message(QueueUrl=queue, VisibilityTimeout=100)["Messages"]

    sqs.delete_message(QueueUrl=queue, ReceiptHandle=first["ReceiptHandle"])
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=second["ReceiptHandle"])
    server.advance("200s")

    assert bodies(sqs.receive_message(QueueUrl=queue)) == []


def test_a_message_that_is_visible_again_can_be_deleted_and_not_retimed(
    server: SqsServer, sqs: Any, queue: str
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="work")
    [message] = sqs.receive_message(QueueUrl=queue, VisibilityTimeout=1)["Messages"]
    server.advance("1s")
    handle = message["ReceiptHandle"]

    code, _ = refusal(
        sqs.change_message_visibility, QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=5
    )
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=handle)

    assert code == "AWS.SimpleQueueService.MessageNotInflight"
    assert count(sqs, queue) == 0


def test_delays_of_messages_and_of_queues(server: SqsServer, sqs: Any, queue: str) -> None:
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"DelaySeconds": "10"})
    sqs.send_message(QueueUrl=queue, MessageBody="by the queue")
    sqs.send_message(QueueUrl=queue, MessageBody="at once", DelaySeconds=0)
    sqs.send_message(QueueUrl=queue, MessageBody="by itself", DelaySeconds=20)

    now = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
    delayed = count(sqs, queue, "Delayed")
    server.advance("10s")
    [later] = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, AttributeNames=["All"])["Messages"]
    server.advance("10s")
    last = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)

    assert (bodies(now), delayed, later["Body"], bodies(last)) == (
        ["at once"],
        2,
        "by the queue",
        ["by itself"],
    )
    attributes = later["Attributes"]
    waited_ms = int(attributes["ApproximateFirstReceiveTimestamp"]) - int(attributes["SentTimestamp"])
    assert waited_ms == 10_000


def test_messages_are_not_delivered_after_the_retention_period(
    server: SqsServer, sqs: Any, queue: str
) -> None:
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"MessageRetentionPeriod": "60"})
    sqs.send_message(QueueUrl=queue, MessageBody="old")

    server.advance("60s")

    assert bodies(sqs.receive_message(QueueUrl=queue)) == []


def test_a_long_poll_gets_a_message_as_soon_as_there_is_one(server: SqsServer, sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="soon", DelaySeconds=1)
    server._loop.call_soon_threadsafe(lambda: server._loop.create_task(server.broker.advance("1s")))

    found: list[str] = []
    while not found:  # A poll is cut short where the clock stands.
        found = bodies(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20))

    assert found == ["soon"]


def test_batches_have_a_result_for_each_entry(sqs: Any, queue: str) -> None:
    sent = sqs.send_message_batch(
        QueueUrl=queue,
        Entries=[
            {"Id": "one", "MessageBody": "1"},
            {"Id": "late", "MessageBody": "x", "DelaySeconds": 901},
            {"Id": "two", "MessageBody": "2"},
        ],
    )
    messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    handles = {message["Body"]: message["ReceiptHandle"] for message in messages}
    changed = sqs.change_message_visibility_batch(
        QueueUrl=queue,
        Entries=[
            {"Id": "a", "ReceiptHandle": handles["1"], "VisibilityTimeout": 50},
            {"Id": "b", "ReceiptHandle": handles["2"], "VisibilityTimeout": 50_000},
        ],
    )
    deleted = sqs.delete_message_batch(
        QueueUrl=queue,
        Entries=[
            {"Id": "x", "ReceiptHandle": handles["1"]},
            {"Id": "y", "ReceiptHandle": "forged"},
            {"Id": "z", "ReceiptHandle": handles["2"]},
        ],
    )

    assert [entry["Id"] for entry in sent["Successful"]] == ["one", "two"]
    [failed] = sent["Failed"]
    assert (failed["Id"], failed["SenderFault"], failed["Code"]) == ("late", True, "InvalidParameterValue")
    assert [entry["Id"] for entry in changed["Successful"]] == ["a"]
    assert [entry["Code"] for entry in changed["Failed"]] == ["InvalidParameterValue"]
    assert [entry["Id"] for entry in deleted["Successful"]] == ["x", "z"]
    assert [entry["Code"] for entry in deleted["Failed"]] == ["ReceiptHandleIsInvalid"]
    assert count(sqs, queue) + count(sqs, queue, "NotVisible") == 0


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ([], "EmptyBatchRequest"),
        ([{"Id": str(number), "MessageBody": "x"} for number in range(11)], "TooManyEntriesInBatchRequest"),
        ([{"Id": "a", "MessageBody": "x"}, {"Id": "a", "MessageBody": "x"}], "BatchEntryIdsNotDistinct"),
        ([{"Id": "a b", "MessageBody": "x"}], "InvalidBatchEntryId"),
        ([{"Id": name, "MessageBody": "x" * 600_000} for name in "ab"], "BatchRequestTooLong"),
    ],
)
def test_batches_that_are_not_valid_are_refused_as_a_whole(
    sqs: Any, queue: str, entries: list[dict[str, str]], code: str
) -> None:
    found, _ = refusal(sqs.send_message_batch, QueueUrl=queue, Entries=entries)

    assert found == f"AWS.SimpleQueueService.{code}"
    assert count(sqs, queue) == 0


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"MessageBody": ""}, "MissingParameter"),
        ({"MessageBody": "\x01"}, "InvalidMessageContents"),
        ({"MessageBody": "x", "DelaySeconds": 901}, "InvalidParameterValue"),
        ({"MessageBody": "x", "MessageAttributes": {"a b": {"DataType": "String", "StringValue": "x"}}},
         "InvalidParameterValue"),
        ({"MessageBody": "x", "MessageAttributes": {"a": {"DataType": "Colour", "StringValue": "x"}}},
         "InvalidParameterValue"),
        ({"MessageBody": "x", "MessageAttributes": {"a": {"DataType": "Number", "StringValue": "x"}}},
         "InvalidParameterValue"),
        ({"MessageBody": "x", "MessageAttributes": {"a": {"DataType": "String"}}}, "InvalidParameterValue"),
        ({"MessageBody": "x", "MessageAttributes": {str(number): {"DataType": "String", "StringValue": "x"}
                                                     for number in range(11)}}, "InvalidParameterValue"),
    ],
)  # fmt: skip
def test_messages_that_are_not_valid_are_refused(
    sqs: Any, queue: str, given: dict[str, Any], code: str
) -> None:
    assert refusal(sqs.send_message, QueueUrl=queue, **given)[0] == code


@pytest.mark.parametrize(
    "given",
    [
        {"MaxNumberOfMessages": 11},
        {"MaxNumberOfMessages": 0},
        {"WaitTimeSeconds": 21},
        {"VisibilityTimeout": 43_201},
    ],
)
def test_receives_that_are_not_valid_are_refused(sqs: Any, queue: str, given: dict[str, int]) -> None:
    assert refusal(sqs.receive_message, QueueUrl=queue, **given)[0] == "InvalidParameterValue"
