from typing import Any

from tests.frontends.sqs.clients import bodies, refusal

from penstock.testing.sqs import SqsServer


def send(sqs: Any, queue: str, *bodies: str, group: str = "g") -> None:
    for body in bodies:
        sqs.send_message(QueueUrl=queue, MessageBody=body, MessageGroupId=group)


def delete(sqs: Any, queue: str, received: dict[str, Any]) -> None:
    for message in received["Messages"]:
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


def test_a_group_is_received_in_order_and_by_one_client_at_a_time(sqs: Any, fifo: str) -> None:
    send(sqs, fifo, "a1", "a2", "a3", group="a")
    send(sqs, fifo, "b1", group="b")

    first = sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=2)
    second = sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10)
    delete(sqs, fifo, first)
    third = sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10)

    assert (bodies(first), bodies(second), bodies(third)) == (["a1", "a2"], ["b1"], ["a3"])


def test_messages_that_stood_in_line_come_together_too(sqs: Any, fifo: str) -> None:
    send(sqs, fifo, "1", "2", "3", "4")
    first = sqs.receive_message(QueueUrl=fifo)
    sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10)  # Looks at the others, and sets them aside.

    delete(sqs, fifo, first)

    assert bodies(sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10)) == ["2", "3", "4"]


def test_a_batch_that_times_out_comes_again_in_order(server: SqsServer, sqs: Any, fifo: str) -> None:
    send(sqs, fifo, "1", "2", "3")
    sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10)

    server.advance("30s")
    again = sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10)
    delete(sqs, fifo, {"Messages": again["Messages"][:1]})
    server.advance("30s")

    assert bodies(again) == ["1", "2", "3"]
    assert bodies(sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10)) == ["2", "3"]


def test_repeats_within_five_minutes_are_stored_once(server: SqsServer, sqs: Any, fifo: str) -> None:
    first = sqs.send_message(QueueUrl=fifo, MessageBody="same", MessageGroupId="g")
    repeat = sqs.send_message(QueueUrl=fifo, MessageBody="same", MessageGroupId="g")
    other = sqs.send_message(
        QueueUrl=fifo, MessageBody="same", MessageGroupId="g", MessageDeduplicationId="2"
    )
    server.advance("5m")
    later = sqs.send_message(QueueUrl=fifo, MessageBody="same", MessageGroupId="g")

    assert (repeat["MessageId"], repeat["SequenceNumber"]) == (first["MessageId"], first["SequenceNumber"])
    assert len({first["MessageId"], other["MessageId"], later["MessageId"]}) == 3
    assert first["SequenceNumber"] < other["SequenceNumber"] < later["SequenceNumber"]


def test_a_repeat_of_a_delayed_message_has_its_id(sqs: Any, fifo: str) -> None:
    sqs.set_queue_attributes(QueueUrl=fifo, Attributes={"DelaySeconds": "60"})

    ids = {
        sqs.send_message(QueueUrl=fifo, MessageBody="same", MessageGroupId="g")["MessageId"] for _ in range(2)
    }

    assert len(ids) == 1


def test_deduplication_may_be_for_each_group(sqs: Any, name: str) -> None:
    attributes = {"FifoQueue": "true", "DeduplicationScope": "messageGroup"}
    queue = sqs.create_queue(QueueName=f"{name}.fifo", Attributes=attributes)["QueueUrl"]

    for group in ("a", "b", "a"):
        sqs.send_message(QueueUrl=queue, MessageBody=group, MessageGroupId=group, MessageDeduplicationId="1")

    received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, AttributeNames=["All"])
    assert bodies(received) == ["a", "b"]
    assert {message["Attributes"]["MessageDeduplicationId"] for message in received["Messages"]} == {"1"}


def test_a_receive_is_repeated_by_its_attempt_id(server: SqsServer, sqs: Any, fifo: str) -> None:
    send(sqs, fifo, "1", "2")
    first = sqs.receive_message(QueueUrl=fifo, ReceiveRequestAttemptId="try", VisibilityTimeout=30)
    server.advance("20s")

    again = sqs.receive_message(QueueUrl=fifo, ReceiveRequestAttemptId="try", VisibilityTimeout=30)
    server.advance("20s")  # The timeout began again.
    other = sqs.receive_message(QueueUrl=fifo, ReceiveRequestAttemptId="other")
    delete(sqs, fifo, first)
    after = sqs.receive_message(QueueUrl=fifo, ReceiveRequestAttemptId="try")

    assert again["Messages"] == first["Messages"]
    assert (bodies(other), bodies(after)) == ([], ["2"])


def test_a_handle_is_worth_nothing_after_its_timeout(server: SqsServer, sqs: Any, fifo: str) -> None:
    send(sqs, fifo, "1")
    [message] = sqs.receive_message(QueueUrl=fifo)["Messages"]
    server.advance("30s")

    code, sentence = refusal(sqs.delete_message, QueueUrl=fifo, ReceiptHandle=message["ReceiptHandle"])

    assert code == "InvalidParameterValue"
    assert sentence.endswith("Reason: The receipt handle has expired.")


def test_what_a_fifo_queue_needs(sqs: Any, name: str) -> None:
    queue = sqs.create_queue(QueueName=f"{name}.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]

    assert refusal(sqs.send_message, QueueUrl=queue, MessageBody="x")[0] == "MissingParameter"
    given = {"QueueUrl": queue, "MessageBody": "x", "MessageGroupId": "g"}
    assert refusal(sqs.send_message, **given)[0] == "InvalidParameterValue"
    given["MessageDeduplicationId"] = "1"
    assert refusal(sqs.send_message, **given, DelaySeconds=5)[0] == "InvalidParameterValue"
    assert refusal(sqs.create_queue, QueueName=f"{name}-b.fifo")[0] == "InvalidParameterValue"
