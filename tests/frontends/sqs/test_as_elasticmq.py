"""What ElasticMQ's own tests check (f86bb05) and the other tests here do not."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.frontends.sqs.clients import bodies, connect, refusal

from penstock.testing.sqs import SqsServer

TRACE = "Root=1-5e3d83c1-e6a0db584850d61342823d4c"
OTHER_TRACE = "Root=1-67891233-abcdef012345678912345678"
CLIENTS = 8


def arn(sqs: Any, queue: str) -> str:
    found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
    return str(found["Attributes"]["QueueArn"])


def system(sqs: Any, queue: str) -> list[dict[str, str]]:
    """The system attributes of what is received."""
    received = sqs.receive_message(
        QueueUrl=queue, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
    )
    return [message["Attributes"] for message in received["Messages"]]


def traced(trace: str) -> dict[str, Any]:
    return {"AWSTraceHeader": {"DataType": "String", "StringValue": trace}}


@pytest.fixture
def tracing(server: SqsServer) -> Any:
    """A client whose requests have a tracing header, as AWS X-Ray adds it."""
    client = connect(server.url)
    client.meta.events.register(
        "before-sign.sqs", lambda request, **_: request.headers.add_header("X-Amzn-Trace-Id", TRACE)
    )
    yield client
    client.close()


# Tracing.


def test_the_tracing_header_of_a_request_is_that_of_its_messages(tracing: Any, queue: str) -> None:
    tracing.send_message(QueueUrl=queue, MessageBody="x")
    entries = [{"Id": "a", "MessageBody": "a"}, {"Id": "b", "MessageBody": "b"}]
    tracing.send_message_batch(QueueUrl=queue, Entries=entries)

    assert [each["AWSTraceHeader"] for each in system(tracing, queue)] == [TRACE] * 3


def test_the_trace_of_a_message_is_preferred_to_that_of_its_request(tracing: Any, queue: str) -> None:
    entries = [
        {"Id": "a", "MessageBody": "a", "MessageSystemAttributes": traced(OTHER_TRACE)},
        {"Id": "b", "MessageBody": "b"},
    ]

    tracing.send_message_batch(QueueUrl=queue, Entries=entries)

    assert [each["AWSTraceHeader"] for each in system(tracing, queue)] == [OTHER_TRACE, TRACE]


def test_a_message_without_a_trace_has_none(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")

    assert [set(each) & {"AWSTraceHeader", "MessageGroupId"} for each in system(sqs, queue)] == [set()]


# Deduplication.


def test_a_deduplication_id_is_preferred_to_the_content(sqs: Any, fifo: str) -> None:
    for body, dedup_id in (("1", "a"), ("1", "b"), ("2", "a")):
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId="g", MessageDeduplicationId=dedup_id)

    assert bodies(sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10)) == ["1", "1"]


def test_a_repeat_is_answered_with_the_checksums_of_its_own_content(sqs: Any, fifo: str) -> None:
    sent = [
        sqs.send_message(  # boto3 compares the checksum of the body itself.
            QueueUrl=fifo,
            MessageBody=body,
            MessageGroupId="g",
            MessageDeduplicationId="same",
            MessageAttributes={"n": {"DataType": "String", "StringValue": body}},
        )
        for body in ("first", "second")
    ]

    assert sent[0]["MessageId"] == sent[1]["MessageId"]
    assert sent[0]["SequenceNumber"] == sent[1]["SequenceNumber"]
    for checksum in ("MD5OfMessageBody", "MD5OfMessageAttributes"):
        assert sent[0][checksum] != sent[1][checksum]


def test_a_dead_letter_still_counts_for_the_deduplication_of_its_queue(sqs: Any, name: str) -> None:
    fifo = {"FifoQueue": "true"}
    letters = sqs.create_queue(QueueName=f"{name}-dead.fifo", Attributes=fifo)["QueueUrl"]
    policy = json.dumps({"deadLetterTargetArn": arn(sqs, letters), "maxReceiveCount": 1})
    made = sqs.create_queue(QueueName=f"{name}.fifo", Attributes={**fifo, "RedrivePolicy": policy})
    given = {"MessageGroupId": "g", "MessageDeduplicationId": "same"}
    sqs.send_message(QueueUrl=made["QueueUrl"], MessageBody="first", **given)
    sqs.receive_message(QueueUrl=made["QueueUrl"], VisibilityTimeout=0)

    sqs.send_message(QueueUrl=made["QueueUrl"], MessageBody="repeat", **given)
    sqs.send_message(QueueUrl=letters, MessageBody="direct", **given)

    assert bodies(sqs.receive_message(QueueUrl=made["QueueUrl"])) == []
    assert bodies(sqs.receive_message(QueueUrl=letters, MaxNumberOfMessages=10)) == ["first", "direct"]


def test_a_delay_of_zero_is_allowed_in_a_fifo_queue(sqs: Any, fifo: str) -> None:
    sqs.send_message(QueueUrl=fifo, MessageBody="x", MessageGroupId="g", DelaySeconds=0)

    assert bodies(sqs.receive_message(QueueUrl=fifo)) == ["x"]


# Sizes, and requests at the same time.


def test_a_message_may_have_a_mebibyte_and_no_more(sqs: Any, queue: str) -> None:
    largest = "x" * 1024 * 1024

    sqs.send_message(QueueUrl=queue, MessageBody=largest)
    code, _ = refusal(sqs.send_message, QueueUrl=queue, MessageBody=f"{largest}x")

    assert bodies(sqs.receive_message(QueueUrl=queue)) == [largest]
    assert code == "InvalidParameterValue"


def create_at_once(server: SqsServer, name: str, attributes: list[dict[str, str]]) -> list[str]:
    """What each of some clients gets: the URL of the queue, or the code of an error."""

    def create(given: dict[str, str]) -> str:
        client = connect(server.url)
        try:
            return str(client.create_queue(QueueName=name, Attributes=given)["QueueUrl"])
        except client.exceptions.QueueNameExists as error:
            return str(error.response["Error"]["Code"])
        finally:
            client.close()

    with ThreadPoolExecutor(len(attributes)) as clients:
        return list(clients.map(create, attributes))


def test_clients_that_create_a_queue_at_the_same_time_get_the_same_one(server: SqsServer, name: str) -> None:
    assert set(create_at_once(server, name, [{}] * CLIENTS)) == {f"{server.url}/123456789012/{name}"}


def test_of_clients_that_create_different_queues_of_a_name_one_wins(server: SqsServer, name: str) -> None:
    answers = create_at_once(server, name, [{"DelaySeconds": str(number)} for number in range(CLIENTS)])

    assert sorted(answers)[:-1] == ["QueueAlreadyExists"] * (CLIENTS - 1)
    assert max(answers) == f"{server.url}/123456789012/{name}"
