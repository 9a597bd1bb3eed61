"""SQS as it looks on one's own machine: boto3 with moto's server, which keeps everything in memory."""

from collections.abc import Sequence
from typing import Any

import boto3

from benchmarks.peers.adapter import Adapter, Received, Token

BATCH = 10  # SQS's own limit.


class SqsAdapter(Adapter):
    """There is one mode."""

    send_max = BATCH

    def __init__(self, address: str, mode: str) -> None:
        del mode
        keys = {"region_name": "eu-central-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
        self._client = boto3.client("sqs", endpoint_url=address, **keys)
        self._urls: dict[str, str] = {}

    def make(self, queue: str, groups: Sequence[str]) -> None:
        del groups
        self._client.create_queue(QueueName=queue)

    def _url(self, queue: str) -> str:
        if queue not in self._urls:
            self._urls[queue] = self._client.get_queue_url(QueueName=queue)["QueueUrl"]
        return self._urls[queue]

    def publish(self, queue: str, body: bytes) -> None:
        self._client.send_message(QueueUrl=self._url(queue), MessageBody=body.decode())

    def send(self, queue: str, bodies: Sequence[bytes]) -> None:
        self.publish_later(queue, bodies, [0] * len(bodies))

    def publish_later(self, queue: str, bodies: Sequence[bytes], delays_s: Sequence[int]) -> None:
        pairs = list(zip(bodies, delays_s, strict=True))
        entries = [{"MessageBody": body.decode(), "DelaySeconds": delay} for body, delay in pairs]
        self._batches("send_message_batch", self._url(queue), entries)

    def _batches(self, method: str, url: str, entries: Sequence[dict[str, Any]]) -> None:
        for at in range(0, len(entries), BATCH):
            numbered = [{"Id": str(number)} | each for number, each in enumerate(entries[at : at + BATCH])]
            answer = getattr(self._client, method)(QueueUrl=url, Entries=numbered)
            assert not answer.get("Failed"), answer

    def subscribe(self, queue: str, group: str) -> None:
        del group
        self._queue = self._url(queue)

    def receive(self, count: int, wait_s: float) -> Received:
        found = self._client.receive_message(
            QueueUrl=self._queue, MaxNumberOfMessages=min(count, BATCH), WaitTimeSeconds=max(round(wait_s), 1)
        )
        return [(each["Body"].encode(), each["ReceiptHandle"]) for each in found.get("Messages", [])]

    def ack(self, tokens: Sequence[Token]) -> None:
        self._batches("delete_message_batch", self._queue, [{"ReceiptHandle": each} for each in tokens])

    def nack(self, tokens: Sequence[Token]) -> None:
        again = [{"ReceiptHandle": each, "VisibilityTimeout": 0} for each in tokens]
        self._batches("change_message_visibility_batch", self._queue, again)

    def close(self) -> None:
        self._client.close()
