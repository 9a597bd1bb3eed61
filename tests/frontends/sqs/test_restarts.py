"""Receipt handles and queues across a killed server."""

from pathlib import Path

import pytest
from tests.frontends.sqs.clients import bodies, connect
from tests.server.process import Server

pytestmark = pytest.mark.slow


def test_a_handle_of_before_a_kill_deletes_its_message(tmp_path: Path) -> None:
    with Server(tmp_path, listeners=("native", "text", "status", "sqs")) as server:
        sqs = connect(f"http://127.0.0.1:{server.ports['sqs']}")
        queue = sqs.create_queue(QueueName="jobs", Attributes={"VisibilityTimeout": "600"})["QueueUrl"]
        for body in ("deleted", "kept"):
            sqs.send_message(QueueUrl=queue, MessageBody=body)
        [first] = sqs.receive_message(QueueUrl=queue)["Messages"]
        sqs.receive_message(QueueUrl=queue)

        server.kill()
        server.start()
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=first["ReceiptHandle"])
        received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, AttributeNames=["All"])

        assert first["Body"] == "deleted"
        assert bodies(received) == ["kept"]  # At once: who held it may have died as well.
        attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
        assert attributes["VisibilityTimeout"] == "600"
        sqs.close()


def test_messages_in_flight_are_not_lost_by_a_stop(tmp_path: Path) -> None:
    with Server(tmp_path, listeners=("native", "text", "status", "sqs")) as server:
        sqs = connect(f"http://127.0.0.1:{server.ports['sqs']}")
        attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
        queue = sqs.create_queue(QueueName="jobs.fifo", Attributes=attributes)["QueueUrl"]
        for body in "123":
            sqs.send_message(QueueUrl=queue, MessageBody=body, MessageGroupId="g")
        before = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=2)

        assert server.stop() == 0
        server.start()
        repeat = sqs.send_message(QueueUrl=queue, MessageBody="1", MessageGroupId="g")
        after = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)

        assert bodies(before) == ["1", "2"]
        assert bodies(after) == ["1", "2", "3"]
        assert repeat["MessageId"] == before["Messages"][0]["MessageId"]
        sqs.close()
