import json
from typing import Any

import pytest
from tests.frontends.sqs.clients import connect, refusal

from penstock.testing.sqs import SqsServer


def attributes(sqs: Any, url: str, *names: str) -> dict[str, str]:
    found: dict[str, str] = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(names) or ["All"])[
        "Attributes"
    ]
    return found


def test_a_queue_is_a_topic_with_a_group(server: SqsServer, sqs: Any, queue: str, name: str) -> None:
    group = server.run(server.broker.describe_group(name, "sqs"))

    assert queue == f"{server.url}/123456789012/{name}"
    assert sqs.get_queue_url(QueueName=name)["QueueUrl"] == queue
    assert (group.topic, group.kind, group.lag) == (name, "queue", 0)


def test_new_queues_have_the_attributes_of_the_service(sqs: Any, queue: str, name: str) -> None:
    found = attributes(sqs, queue)

    assert found.pop("CreatedTimestamp") == found.pop("LastModifiedTimestamp")
    assert found == {
        "ApproximateNumberOfMessages": "0", "ApproximateNumberOfMessagesDelayed": "0",
        "ApproximateNumberOfMessagesNotVisible": "0", "DelaySeconds": "0", "MaximumMessageSize": "1048576",
        "MessageRetentionPeriod": "345600", "QueueArn": f"arn:aws:sqs:us-east-1:123456789012:{name}",
        "ReceiveMessageWaitTimeSeconds": "0", "SqsManagedSseEnabled": "false", "VisibilityTimeout": "30",
    }  # fmt: skip


def test_attributes_change_the_settings_of_topic_and_group(
    server: SqsServer, sqs: Any, queue: str, name: str
) -> None:
    sqs.set_queue_attributes(
        QueueUrl=queue, Attributes={"MessageRetentionPeriod": "60", "MaximumMessageSize": "2048"}
    )

    settings = server.run(server.broker.describe_topic(name)).settings
    assert (settings.retention_ms, settings.ttl_ms) == (60_000, 60_000)
    assert refusal(sqs.send_message, QueueUrl=queue, MessageBody="x" * 2049) == (
        "InvalidParameterValue",
        "One or more parameters are invalid. Reason: Message must be shorter than 2048 bytes.",
    )


def test_creating_a_queue_again_needs_the_same_attributes(sqs: Any, name: str) -> None:
    first = sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "10"})

    assert sqs.create_queue(QueueName=name)["QueueUrl"] == first["QueueUrl"]
    assert sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "10"})
    assert refusal(sqs.create_queue, QueueName=name, Attributes={"VisibilityTimeout": "11"}) == (
        "QueueAlreadyExists",
        "A queue already exists with the same name and a different value for attribute VisibilityTimeout",
    )


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"VisibilityTimeout": "43201"}, "InvalidAttributeValue"),
        ({"DelaySeconds": "-1"}, "InvalidAttributeValue"),
        ({"MaximumMessageSize": "1023"}, "InvalidAttributeValue"),
        ({"ReceiveMessageWaitTimeSeconds": "21"}, "InvalidAttributeValue"),
        ({"Policy": "no json"}, "InvalidAttributeValue"),
        ({"RedrivePolicy": "[]"}, "InvalidParameterValue"),
        ({"RedrivePolicy": '{"maxReceiveCount": 3}'}, "InvalidParameterValue"),
        ({"Colour": "blue"}, "InvalidAttributeName"),
        ({"FifoQueue": "true"}, "InvalidParameterValue"),
    ],
)
def test_attributes_that_are_not_valid_are_refused(
    sqs: Any, name: str, given: dict[str, str], code: str
) -> None:
    assert refusal(sqs.create_queue, QueueName=name, Attributes=given)[0] == code
    assert refusal(sqs.get_queue_url, QueueName=name)[0] == "AWS.SimpleQueueService.NonExistentQueue"


def test_queues_are_listed_by_prefix_and_in_pages(sqs: Any, name: str) -> None:
    urls = [sqs.create_queue(QueueName=f"{name}-{letter}")["QueueUrl"] for letter in "abc"]

    first = sqs.list_queues(QueueNamePrefix=f"{name}-", MaxResults=2)
    second = sqs.list_queues(QueueNamePrefix=f"{name}-", MaxResults=2, NextToken=first["NextToken"])

    assert sqs.list_queues(QueueNamePrefix=f"{name}-")["QueueUrls"] == urls
    assert (first["QueueUrls"], second["QueueUrls"]) == (urls[:2], urls[2:])
    assert "NextToken" not in second
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=f"{name}-nothing")


def test_a_deleted_queue_is_gone_and_its_handles_are_of_no_use(sqs: Any, queue: str, name: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="before")
    [message] = sqs.receive_message(QueueUrl=queue)["Messages"]

    sqs.delete_queue(QueueUrl=queue)

    missing = ("AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist.")
    assert refusal(sqs.send_message, QueueUrl=queue, MessageBody="x") == missing
    sqs.create_queue(QueueName=name)
    handle = message["ReceiptHandle"]
    assert refusal(sqs.delete_message, QueueUrl=queue, ReceiptHandle=handle)[0] == "ReceiptHandleIsInvalid"


def test_a_queue_on_a_topic_that_was_there_leaves_it_there(server: SqsServer, sqs: Any, name: str) -> None:
    server.run(server.broker.create_topic(name, partitions=3))
    server.run(server.broker.publish(name, b"from elsewhere"))
    missing = refusal(sqs.get_queue_url, QueueName=name)

    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    received = sqs.receive_message(QueueUrl=url)
    sqs.delete_queue(QueueUrl=url)

    assert missing[0] == "AWS.SimpleQueueService.NonExistentQueue"
    assert received["Messages"][0]["Body"] == "from elsewhere"
    info = server.run(server.broker.describe_topic(name))
    assert (info.settings.partitions, info.messages, info.groups) == (3, 1, [])


def test_tags_are_kept_with_the_queue(sqs: Any, name: str) -> None:
    url = sqs.create_queue(QueueName=name, tags={"team": "billing", "empty": ""})["QueueUrl"]

    sqs.tag_queue(QueueUrl=url, Tags={"stage": "test"})
    sqs.untag_queue(QueueUrl=url, TagKeys=["team", "unknown"])

    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"empty": "", "stage": "test"}
    many = {f"tag-{number}": "x" for number in range(51)}
    assert refusal(sqs.tag_queue, QueueUrl=url, Tags=many)[0] == "InvalidParameterValue"


def test_permissions_are_statements_of_the_policy(sqs: Any, queue: str, name: str) -> None:
    sqs.add_permission(QueueUrl=queue, Label="one", AWSAccountIds=["111111111111"], Actions=["SendMessage"])
    sqs.add_permission(QueueUrl=queue, Label="two", AWSAccountIds=["111111111111"], Actions=["*"])
    again = refusal(
        sqs.add_permission, QueueUrl=queue, Label="one", AWSAccountIds=["111111111111"], Actions=["*"]
    )

    sqs.remove_permission(QueueUrl=queue, Label="two")

    [statement] = json.loads(attributes(sqs, queue, "Policy")["Policy"])["Statement"]
    assert statement == {
        "Sid": "one", "Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::111111111111:root"},
        "Action": "SQS:SendMessage", "Resource": f"arn:aws:sqs:us-east-1:123456789012:{name}",
    }  # fmt: skip
    assert again == (
        "InvalidParameterValue",
        "Value one for parameter Label is invalid. Reason: Already exists.",
    )
    assert refusal(sqs.remove_permission, QueueUrl=queue, Label="two")[0] == "InvalidParameterValue"


def test_a_purged_queue_has_nothing_waiting_in_flight_or_delayed(sqs: Any, queue: str) -> None:
    for body in ("taken", "waiting"):
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    sqs.send_message(QueueUrl=queue, MessageBody="delayed", DelaySeconds=60)
    [taken] = sqs.receive_message(QueueUrl=queue)["Messages"]

    sqs.purge_queue(QueueUrl=queue)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=taken["ReceiptHandle"])

    found = attributes(sqs, queue)
    assert [found[f"ApproximateNumberOfMessages{what}"] for what in ("", "NotVisible", "Delayed")] == [
        "0"
    ] * 3


def test_a_queue_may_be_named_by_its_name_alone_or_by_an_url_of_another_host(
    sqs: Any, queue: str, name: str
) -> None:
    sqs.send_message(QueueUrl=name, MessageBody="a")
    sqs.send_message(QueueUrl=f"https://sqs.eu-west-1.amazonaws.com/000000000000/{name}", MessageBody="b")

    assert attributes(sqs, queue, "ApproximateNumberOfMessages") == {"ApproximateNumberOfMessages": "2"}


def test_the_region_of_an_arn_is_the_one_of_the_client(server: SqsServer, queue: str) -> None:
    client = connect(server.url, region="eu-central-1")

    arn = attributes(client, queue, "QueueArn")["QueueArn"]
    client.close()

    assert arn.startswith("arn:aws:sqs:eu-central-1:")


@pytest.mark.parametrize(
    "attributes",
    [
        {"DelaySeconds": "soon"},
        {"RedrivePolicy": "{"},
        {"RedrivePolicy": "[]"},
        {"RedrivePolicy": '{"deadLetterTargetArn": "x"}'},
        {"LastModifiedTimestamp": None},
    ],
)
def test_attributes_that_another_protocol_has_spoilt_do_no_harm_to_other_queues(
    server: SqsServer, sqs: Any, queue: str, name: str, attributes: dict[str, str | None]
) -> None:
    stored = {"CreatedTimestamp": "1", "LastModifiedTimestamp": "1", **attributes}
    spoilt = {each: value for each, value in stored.items() if value is not None}
    server.run(server.broker.create_topic(f"{name}-spoilt", sqs_attributes=spoilt))

    listed = sqs.list_queues(QueueNamePrefix=name)["QueueUrls"]
    sources = sqs.list_dead_letter_source_queues(QueueUrl=queue)["queueUrls"]
    code, _ = refusal(
        sqs.get_queue_attributes, QueueUrl=f"{queue}-spoilt", AttributeNames=["CreatedTimestamp"]
    )

    assert (listed, sources) == ([queue], [])
    assert code == "AWS.SimpleQueueService.NonExistentQueue"
