"""SQS as it looks on one's own machine: boto3 with moto's server, which keeps everything in memory."""

from collections.abc import Sequence

import boto3

from benchmarks.peers.adapter import Adapter, Received, Token

BATCH = 10  # SQS's own limit.


class SqsAdapter(Adapter):
    """There is one mode."""

    can = frozenset({"ack", "nack", "delay"})

    def __init__(self, address: str, mode: str) -> None:
        del mode
        self._client = boto3.client(
            "sqs",
            endpoint_url=address,
            region_name="eu-central-1",
            aws_access_key_id="x",
            aws_secret_access_key="x",
        )

    def make(self, queue: str, groups: Sequence[str]) -> None:
        del groups
        self._client.create_queue(QueueName=queue)

    def _url(self, queue: str) -> str:
        return str(self._client.get_queue_url(QueueName=queue)["QueueUrl"])

    def publish(self, queue: str, body: bytes) -> None:
        self._client.send_message(QueueUrl=self._url(queue), MessageBody=body.decode())

    def publish_many(self, queue: str, bodies: Sequence[bytes]) -> None:
        self.publish_later(queue, [(body, 0) for body in bodies])

    def publish_later(self, queue: str, bodies: Sequence[tuple[bytes, float]]) -> None:
        url = self._url(queue)
        for at in range(0, len(bodies), BATCH):
            entries = [
                {"Id": str(number), "MessageBody": body.decode(), "DelaySeconds": round(delay)}
                for number, (body, delay) in enumerate(bodies[at : at + BATCH])
            ]
            self._client.send_message_batch(QueueUrl=url, Entries=entries)

    def subscribe(self, queue: str, group: str) -> None:
        del group
        self._queue = self._url(queue)

    def receive(self, count: int, wait_s: float) -> Received:
        found = self._client.receive_message(
            QueueUrl=self._queue, MaxNumberOfMessages=min(count, BATCH), WaitTimeSeconds=round(wait_s)
        )
        return [(each["Body"].encode(), each["ReceiptHandle"]) for each in found.get("Messages", [])]

    def ack(self, tokens: Sequence[Token]) -> None:
        for at in range(0, len(tokens), BATCH):
            batch = enumerate(tokens[at : at + BATCH])
            entries = [{"Id": str(number), "ReceiptHandle": token} for number, token in batch]
            self._client.delete_message_batch(QueueUrl=self._queue, Entries=entries)

    def nack(self, token: Token) -> None:
        self._client.change_message_visibility(QueueUrl=self._queue, ReceiptHandle=token, VisibilityTimeout=0)

    def close(self) -> None:
        self._client.close()
