"""The broker behind its SQS port, with the names of every other one, as far as SQS has them.

    Broker (the facade) ──> SqsOperations ──> boto3 ──> the real listener, in virtual time

A topic is a queue: a standard one, or a FIFO queue of the name with ".fifo".  What SQS does not tell is not
made up, with two exceptions that the facade needs: a message without a key is a message group of its own in a
FIFO queue, and messages of a standard queue are numbered by this client, because SQS does not tell an offset.
An argument that SQS has no parameter for raises ``KeyError`` or fails an assertion.
"""

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from time import monotonic
from types import SimpleNamespace
from typing import Any, Final, TypeVar
from uuid import uuid4

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from tests.client.served import VirtualServer
from tests.contract.one_step import at_once, result_of

from penstock.api.broker import Broker
from penstock.api.operations import Wrap
from penstock.api.work import Work
from penstock.errors import Closed, LeaseLost, TopicNotFound
from penstock.frontends.listener import Connections
from penstock.frontends.sqs.server import SqsListener
from penstock.model.info import Redrive
from penstock.model.message import Delivery, Message, Receipt
from penstock.types import duration_ms
from penstock.wire.records import Record

T = TypeVar("T")

BATCH: Final = 10  # Entries of a request.
WAIT_S: Final = 20  # Of one receive; who waits longer asks again.
PATIENCE_S: Final = 60.0
ALONE: Final = "no-key-"  # What the message group of a message without a key begins with.
LEASE: Final = 1  # SQS tells none; the receipt handle stands for it.
GONE: Final = "AWS.SimpleQueueService.NonExistentQueue"
NOT_IN_FLIGHT: Final = "AWS.SimpleQueueService.MessageNotInflight"
EXPIRED: Final = "The receipt handle has expired."
TOPIC_ATTRIBUTES: Final = {"retention": "MessageRetentionPeriod"}

_session: Final = boto3.Session(
    region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
)


class SqsServer(VirtualServer):
    """The server in virtual time, with its SQS listener."""

    async def start(self) -> None:
        """Listen there, too."""
        await super().start()
        connections = Connections(self._limits.connections_max)
        self._sqs = SqsListener(self.broker, self._limits, connections, clock=self.clock)
        self._sqs_server = await self._loop.create_server(self._sqs.connect, "127.0.0.1", 0)
        self.sqs_port = self._sqs_server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Nor any more."""
        self._sqs_server.close()
        self._sqs.abort()
        await super().stop()


def connect_over_sqs(server: SqsServer, *, fifo: bool) -> Broker:
    """A broker whose every call is a request of boto3."""
    asking = Asking(server)
    return Broker(SqsOperations(asking, fifo), asking)  # type: ignore[arg-type]


class Asking:
    """A client of boto3; and the facade's driver, since a request is answered before it returns."""

    def __init__(self, server: SqsServer) -> None:
        config = Config(retries={"total_max_attempts": 1}, read_timeout=PATIENCE_S)
        self.sqs: Any = _session.client(
            "sqs", endpoint_url=f"http://127.0.0.1:{server.sqs_port}", config=config
        )
        self._server = server
        self.closed = False

    def run(self, work: Work[T]) -> T:
        """Work that waits for nothing."""
        if self.closed:
            raise Closed(what="broker")
        return result_of(work)

    @contextmanager
    def passing(self, wait_s: int) -> Iterator[None]:
        """Let time pass at the server while a request waits there."""
        if not wait_s:
            yield
            return
        done = threading.Event()
        clock = threading.Thread(
            target=lambda: self._server.run(self._server.let_pass(done, wait_s * 1000)), name="clock"
        )
        clock.start()
        try:
            yield
        finally:
            done.set()
            clock.join()

    def close(self, timeout_ms: int | None) -> None:
        """Hang up."""
        self.closed = True
        self.sqs.close()


@contextmanager
def in_our_words(topic: str, offset: int = 0) -> Iterator[None]:
    """Errors of the service as those of the broker."""
    try:
        yield
    except ClientError as error:
        code, words = error.response["Error"]["Code"], error.response["Error"]["Message"]
        if code == GONE:
            raise TopicNotFound(topic=topic) from None
        if code == NOT_IN_FLIGHT or EXPIRED in words:
            raise LeaseLost(topic=topic, partition=0, offset=offset) from None
        raise


def tens(items: Iterable[T]) -> Iterator[list[T]]:
    """As many as a request takes."""
    remaining = iter(items)
    while some := list(islice(remaining, BATCH)):
        yield some


class SqsOperations:
    """What the service has, by the names of the broker's operations."""

    def __init__(self, asking: Asking, fifo: bool) -> None:
        self._asking = asking
        self._sqs = asking.sqs
        self._fifo = fifo
        self._numbers: dict[str, int] = {}  # Offsets that this client made up, by message id.
        self._sequences: set[str] = set()  # Sequence numbers that were answered; one again is a duplicate.
        self._letters: dict[str, str] = {}  # The dead-letter queue that a topic was created with.
        self._groups: dict[str, str] = {}  # A queue has one.

    # Queues.

    @at_once
    def create_topic(self, name: str, options: Any) -> None:
        given = dict(options)
        if "dead_letter_topic" in given:
            self._letters[name] = given.pop("dead_letter_topic")
        attributes = {
            TOPIC_ATTRIBUTES[option]: str(duration_ms(option, value) // 1000)
            for option, value in given.items()
        }
        if self._fifo:
            attributes["FifoQueue"] = "true"
        self._sqs.create_queue(QueueName=self._name(name), Attributes=attributes)

    @at_once
    def delete_topic(self, name: str) -> None:
        self._sqs.delete_queue(QueueUrl=self.url(name))

    @at_once
    def topic_exists(self, topic: str) -> bool:
        try:
            self.url(topic)
        except TopicNotFound:
            return False
        return True

    @at_once
    def topics(self) -> list[str]:
        urls = self._sqs.list_queues().get("QueueUrls", [])
        return sorted(url.rpartition("/")[2].removesuffix(".fifo") for url in urls)

    def url(self, topic: str) -> str:
        with in_our_words(topic):
            url: str = self._sqs.get_queue_url(QueueName=self._name(topic))["QueueUrl"]
        return url

    def _name(self, topic: str) -> str:
        return f"{topic}.fifo" if self._fifo else topic

    def _attribute(self, topic: str, *names: str) -> list[str]:
        found = self._sqs.get_queue_attributes(QueueUrl=self.url(topic), AttributeNames=list(names))
        return [found["Attributes"][name] for name in names]

    # Publishing.

    @at_once
    def publish(self, topic: str, message: Message) -> Receipt:
        sent = self._sqs.send_message(QueueUrl=self.url(topic), **self._entry(message))
        return self._receipt(topic, sent)

    @at_once
    def publish_batch(self, topic: str, messages: Iterable[Message | bytes]) -> list[Receipt]:
        url = self.url(topic)
        receipts: list[Receipt] = []
        for some in tens(messages):
            entries = [{"Id": str(number), **self._entry(each)} for number, each in enumerate(some)]
            answer = self._sqs.send_message_batch(QueueUrl=url, Entries=entries)
            assert not answer.get("Failed")
            receipts += [self._receipt(topic, sent) for sent in answer["Successful"]]
        return receipts

    def _entry(self, given: Message | bytes) -> dict[str, Any]:
        message = Message(given) if isinstance(given, bytes) else given
        assert message.value is not None
        assert (message.priority, message.partition, message.ttl, message.deliver_at) == (0, None, None, None)
        key = message.key.decode() if isinstance(message.key, bytes) else message.key
        entry: dict[str, Any] = {"MessageBody": message.value.decode()}
        if message.headers:
            entry["MessageAttributes"] = {
                name: {"DataType": "String", "StringValue": value} for name, value in message.headers.items()
            }
        if message.delay is not None:
            entry["DelaySeconds"] = duration_ms("delay", message.delay) // 1000
        if self._fifo:
            entry["MessageGroupId"] = f"{ALONE}{uuid4()}" if key is None else key
            entry["MessageDeduplicationId"] = message.dedup_id or str(uuid4())
        else:
            assert message.dedup_id is None
            if key is not None:
                entry["MessageGroupId"] = key
        return entry

    def _receipt(self, topic: str, sent: Any) -> Receipt:
        sequence = sent.get("SequenceNumber")
        if sequence is None:
            return Receipt(topic, 0, self._number(sent["MessageId"]), 0)
        duplicate = sequence in self._sequences
        self._sequences.add(sequence)
        return Receipt(topic, 0, int(sequence) - 1, 0, None, duplicate)

    def _number(self, message_id: str) -> int:
        return self._numbers.setdefault(message_id, len(self._numbers))

    # The one group of a queue.

    @at_once
    def consumer(
        self, topic: str, group: str, consumer_id: Any, max_in_flight: Any, options: Any, wrap: Wrap
    ) -> "SqsConsumer":
        assert (consumer_id, max_in_flight) == (None, None)
        assert self._groups.setdefault(topic, group) == group, "a queue has one group"
        given = dict(options)
        assert self._fifo or not given.pop("ordered", False)
        given.pop("ordered", None)
        attributes: dict[str, str] = {}
        if "visibility_timeout" in given:
            visibility_ms = duration_ms("visibility_timeout", given.pop("visibility_timeout"))
            attributes["VisibilityTimeout"] = str(visibility_ms // 1000)
        if "max_attempts" in given:
            [arn] = self._attribute(self._letters[topic], "QueueArn")
            policy = {"deadLetterTargetArn": arn, "maxReceiveCount": given.pop("max_attempts")}
            attributes["RedrivePolicy"] = json.dumps(policy)
        assert not given, "SQS has no such option"
        url = self.url(topic)
        if attributes:
            self._sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)
        return SqsConsumer(self, self._asking, topic, group, url, wrap)

    @at_once
    def describe_group(self, topic: str, group: str) -> Any:
        """How much waits; the rest is not told."""
        states = ("", "NotVisible", "Delayed")
        found = self._attribute(topic, *(f"ApproximateNumberOfMessages{state}" for state in states))
        return SimpleNamespace(lag=sum(map(int, found)))

    @at_once
    def seek(self, topic: str, group: str, to: Any, partition: int | None) -> None:
        assert (to, partition) == ("latest", None)
        self._sqs.purge_queue(QueueUrl=self.url(topic))

    @at_once
    def redrive(self, topic: str, limit: int, rate: Any, dry_run: bool, error: Any, group: Any) -> Redrive:
        assert (dry_run, error, group) == (False, None, None)
        [source] = self._attribute(self._letters[topic], "QueueArn")
        self._sqs.start_message_move_task(SourceArn=source)
        deadline = monotonic() + PATIENCE_S
        while monotonic() < deadline:
            [task] = self._sqs.list_message_move_tasks(SourceArn=source)["Results"]
            if task["Status"] == "COMPLETED":
                moved = task["ApproximateNumberOfMessagesMoved"]
                return Redrive(matched=moved, redriven=moved, dry_run=False)
            assert task["Status"] == "RUNNING"
        raise AssertionError("the move does not end")

    def read(self, topic: str, message: Any) -> Record:
        """A received message as a record."""
        attributes = message["Attributes"]
        key = attributes.get("MessageGroupId")
        sequence = attributes.get("SequenceNumber")
        return Record(
            self._number(message["MessageId"]) if sequence is None else int(sequence) - 1,
            int(attributes["SentTimestamp"]),
            None if key is None or key.startswith(ALONE) else key.encode(),
            message["Body"].encode(),
            [
                (name, value["StringValue"].encode())
                for name, value in message.get("MessageAttributes", {}).items()
            ],
            0,
        )


class SqsConsumer:
    """Receives by requests, and answers by receipt handles."""

    identity = "sqs"
    assignment: tuple[int, ...] = ()

    def __init__(
        self, operations: SqsOperations, asking: Asking, topic: str, group: str, url: str, wrap: Wrap
    ) -> None:
        self.settler: Any = None
        self._closed = False
        self._operations = operations
        self._asking = asking
        self._topic = topic
        self._group = group
        self._url = url
        self._wrap = wrap
        self._handles: dict[tuple[int, int], str] = {}  # By offset and attempt.

    @property
    def closed(self) -> bool:
        return self._closed or self._asking.closed

    @at_once
    def receive(self, max_messages: int, wait_ms: int) -> list[Any]:
        if self.closed:
            raise Closed(what="consumer")
        left_s = wait_ms // 1000
        while True:
            wait_s = min(left_s, WAIT_S)
            with self._asking.passing(wait_s):
                answer = self._asking.sqs.receive_message(
                    QueueUrl=self._url,
                    MaxNumberOfMessages=max_messages,
                    WaitTimeSeconds=wait_s,
                    AttributeNames=["All"],
                    MessageAttributeNames=["All"],
                )
            left_s -= wait_s
            found = answer.get("Messages", [])
            if found or left_s <= 0:
                return [self._message(each) for each in found]

    def _message(self, told: Any) -> Any:
        record = self._operations.read(self._topic, told)
        attempt = int(told["Attributes"]["ApproximateReceiveCount"])
        place = (self._topic, 0, self._group, LEASE, record.offset, record.offset + 1)
        [message] = self._wrap(Delivery(*place, attempt, self.settler), [record])
        self._handles[record.offset, attempt] = told["ReceiptHandle"]
        return message

    def _handle(self, message: Any) -> str:
        return self._handles[message.offset, message.attempt]

    @at_once
    def ack(self, messages: list[Any], outputs: list[tuple[str, Message]]) -> None:
        assert not outputs
        sqs = self._asking.sqs
        if len(messages) == 1:
            with in_our_words(self._topic, messages[0].offset):
                sqs.delete_message(QueueUrl=self._url, ReceiptHandle=self._handle(messages[0]))
        for some in tens(messages if len(messages) > 1 else []):
            entries = [
                {"Id": str(number), "ReceiptHandle": self._handle(each)} for number, each in enumerate(some)
            ]
            answer = sqs.delete_message_batch(QueueUrl=self._url, Entries=entries)
            for failed in answer.get("Failed", []):
                assert EXPIRED in failed["Message"]
                raise LeaseLost(topic=self._topic, partition=0, offset=some[int(failed["Id"])].offset)
        for message in messages:
            message.mark_settled()

    @at_once
    def nack(self, message: Any, delay: Any, error: BaseException | str | None) -> None:
        assert error is None
        self._hide(message, duration_ms("delay", delay or 0))
        message.mark_settled()

    @at_once
    def extend(self, message: Any, duration: Any) -> None:
        self._hide(message, duration_ms("duration", duration))

    def _hide(self, message: Any, for_ms: int) -> None:
        with in_our_words(self._topic, message.offset):
            self._asking.sqs.change_message_visibility(
                QueueUrl=self._url, ReceiptHandle=self._handle(message), VisibilityTimeout=for_ms // 1000
            )

    @at_once
    def close(self) -> None:
        self._closed = True
