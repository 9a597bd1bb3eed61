import json
import time
from typing import Any

from tests.frontends.sqs.clients import bodies, refusal

from penstock.testing.sqs import SqsServer
from penstock.wire.headers import DEAD_LETTER_HEADERS, SOURCE_TOPIC

PATIENCE_S = 60


def arn(sqs: Any, queue: str) -> str:
    found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
    return str(found["Attributes"]["QueueArn"])


def with_letters(sqs: Any, name: str, receives: int = 2) -> tuple[str, str]:
    """A queue and its dead-letter queue."""
    letters = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    policy = json.dumps({"deadLetterTargetArn": arn(sqs, letters), "maxReceiveCount": receives})
    return sqs.create_queue(QueueName=name, Attributes={"RedrivePolicy": policy})["QueueUrl"], letters


def fail(sqs: Any, queue: str, *contents: str) -> None:
    """Let messages die in a queue that allows one receive."""
    for body in contents:
        given = {"colour": {"DataType": "String", "StringValue": "blue"}}
        sqs.send_message(QueueUrl=queue, MessageBody=body, MessageAttributes=given)
    for _ in contents:
        sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)


def moved(sqs: Any, source: str) -> dict[str, Any]:
    """The last move task, when it has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        [task] = sqs.list_message_move_tasks(SourceArn=source)["Results"]
        if task["Status"] not in ("RUNNING", "CANCELLING"):
            return dict(task)
    raise AssertionError("it does not end")


def test_a_message_that_is_received_too_often_goes_to_the_dead_letter_queue(
    server: SqsServer, sqs: Any, name: str
) -> None:
    queue, letters = with_letters(sqs, name)
    given = {"colour": {"DataType": "String", "StringValue": "blue"}}
    sent = sqs.send_message(QueueUrl=queue, MessageBody="poison", MessageAttributes=given)

    for _ in range(2):
        assert bodies(sqs.receive_message(QueueUrl=queue)) == ["poison"]
        server.advance("30s")
    gone = sqs.receive_message(QueueUrl=queue)
    [letter] = sqs.receive_message(QueueUrl=letters, MessageAttributeNames=["All"], AttributeNames=["All"])[
        "Messages"
    ]

    assert bodies(gone) == []
    assert (letter["MessageId"], letter["Body"]) == (sent["MessageId"], "poison")
    assert letter["MessageAttributes"] == given
    assert letter["Attributes"]["DeadLetterQueueSourceArn"] == arn(sqs, queue)
    assert letter["Attributes"]["ApproximateReceiveCount"] == "1"
    assert [each.source for each in server.run(server.broker.dead_letters(name))] == [f"{name}:0:0"]


def test_dead_letter_queues_know_their_sources(sqs: Any, name: str) -> None:
    queue, letters = with_letters(sqs, name)

    found = sqs.list_dead_letter_source_queues(QueueUrl=letters)
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": ""})

    assert found["queueUrls"] == [queue]
    assert sqs.list_dead_letter_source_queues(QueueUrl=letters)["queueUrls"] == []


def test_a_dead_letter_queue_must_exist_and_be_of_the_same_type(sqs: Any, name: str) -> None:
    letters = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    missing = json.dumps({"deadLetterTargetArn": f"{arn(sqs, letters)}-not", "maxReceiveCount": 1})
    other = {"FifoQueue": "true", "RedrivePolicy": json.dumps(
        {"deadLetterTargetArn": arn(sqs, letters), "maxReceiveCount": 1})}  # fmt: skip

    code, _ = refusal(sqs.create_queue, QueueName=name, Attributes={"RedrivePolicy": missing})
    assert code == "AWS.SimpleQueueService.NonExistentQueue"
    code, _ = refusal(sqs.create_queue, QueueName=f"{name}.fifo", Attributes=other)
    assert code == "InvalidParameterCombination"


def test_dead_letters_are_moved_back_to_their_queue(sqs: Any, name: str) -> None:
    queue, letters = with_letters(sqs, name, receives=1)
    fail(sqs, queue, "a", "b")

    sqs.start_message_move_task(SourceArn=arn(sqs, letters))
    task = moved(sqs, arn(sqs, letters))
    again = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"])

    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 2)
    assert task["ApproximateNumberOfMessagesToMove"] == 2
    assert sorted(bodies(again)) == ["a", "b"]
    assert again["Messages"][0]["MessageAttributes"]["colour"]["StringValue"] == "blue"
    assert bodies(sqs.receive_message(QueueUrl=letters)) == []


def test_dead_letters_are_moved_to_another_queue_and_a_move_is_cancelled(sqs: Any, name: str) -> None:
    queue, letters = with_letters(sqs, name, receives=1)
    other = sqs.create_queue(QueueName=f"{name}-other")["QueueUrl"]
    fail(sqs, queue, *"abcdefgh")

    started = sqs.start_message_move_task(
        SourceArn=arn(sqs, letters), DestinationArn=arn(sqs, other), MaxNumberOfMessagesPerSecond=1
    )
    busy, _ = refusal(sqs.start_message_move_task, SourceArn=arn(sqs, letters))
    sqs.cancel_message_move_task(TaskHandle=started["TaskHandle"])
    task = moved(sqs, arn(sqs, letters))

    assert busy == "InvalidParameterValue"
    assert task["Status"] == "CANCELLED"
    assert 0 < len(bodies(sqs.receive_message(QueueUrl=other, MaxNumberOfMessages=10))) < 8
    code, _ = refusal(sqs.cancel_message_move_task, TaskHandle=started["TaskHandle"])
    assert code == "InvalidParameterValue"


def test_only_a_dead_letter_queue_is_a_source(sqs: Any, queue: str) -> None:
    assert refusal(sqs.start_message_move_task, SourceArn=arn(sqs, queue)) == (
        "InvalidParameterValue",
        "Source queue must be configured as a Dead Letter Queue.",
    )
    code, _ = refusal(sqs.start_message_move_task, SourceArn="arn:aws:sqs:us-east-1:1:nobody")
    assert code == "ResourceNotFoundException"


def test_a_queue_is_not_moved_to_itself(sqs: Any, name: str) -> None:
    _, letters = with_letters(sqs, name)
    place = arn(sqs, letters)

    code, message = refusal(sqs.start_message_move_task, SourceArn=place, DestinationArn=place)

    assert code == "InvalidParameterValue"
    assert "DestinationArn" in message


def test_a_forged_dead_letter_does_not_choose_where_it_goes(server: SqsServer, sqs: Any, name: str) -> None:
    queue, letters = with_letters(sqs, name, receives=1)
    other = sqs.create_queue(QueueName=f"{name}-other")["QueueUrl"]
    fail(sqs, queue, "genuine")
    headers = dict.fromkeys(DEAD_LETTER_HEADERS, b"1") | {SOURCE_TOPIC: f"{name}-other".encode()}
    server.run(server.broker.publish(f"{name}-dead", b"forged", headers=headers))

    sqs.start_message_move_task(SourceArn=arn(sqs, letters))
    task = moved(sqs, arn(sqs, letters))

    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 1)
    assert bodies(sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)) == ["genuine"]
    assert bodies(sqs.receive_message(QueueUrl=other)) == []
    assert bodies(sqs.receive_message(QueueUrl=letters)) == ["forged"]


def test_messages_of_a_queue_without_a_policy_come_again_and_again(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="again")

    received = [bodies(sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)) for _ in range(20)]

    assert received == [["again"]] * 20
