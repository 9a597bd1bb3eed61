"""A typed topic behind every protocol of a real server."""

import json
import socket
from collections.abc import Callable, Iterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import grpc
import pytest
from botocore.exceptions import ClientError
from confluent_kafka import KafkaError, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.frontends.sqs.clients import connect
from tests.server.process import LISTENERS, Server, until

import penstock
from penstock.errors import SchemaMismatch
from penstock.grpc import penstock_pb2 as pb
from penstock.grpc import penstock_pb2_grpc as services
from penstock.model.schemas import NewSchema

ORDER = '{"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}'
BAD = b'{"id":"one"}'
WHY = 'at /id: "one" is not of type "integer"'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    listeners = (*LISTENERS, "http", "kafka", "grpc", "sqs")
    with (
        Server(tmp_path_factory.mktemp("typed"), listeners=listeners) as server,
        penstock.connect(server.url) as broker,
    ):
        for mode in ("reject", "dead-letter", "off"):
            broker.create_topic(mode, validation=mode)
            broker.register_schema(f"{mode}-value", NewSchema(schema=ORDER, type="JSON"))
        yield server


# How each protocol publishes a value; what they say if it is refused, and nothing if it is not.


def over_native(server: Server, topic: str) -> str:
    with penstock.connect(server.url) as broker:
        try:
            broker.publish(topic, BAD)
        except SchemaMismatch as error:
            return str(error)
    return ""


def over_http(server: Server, topic: str) -> str:
    url = f"http://127.0.0.1:{server.ports['http']}/v1/topics/{topic}/publish"
    body = json.dumps({"text": BAD.decode()}).encode()
    try:
        urlopen(Request(url, body, {"content-type": "application/json"})).close()
    except HTTPError as error:
        if error.code != 422:
            raise
        return error.read().decode().replace("\\", "")
    return ""


def over_grpc(server: Server, topic: str) -> str:
    with grpc.insecure_channel(f"127.0.0.1:{server.ports['grpc']}") as channel:
        try:
            request = pb.PublishRequest(topic=topic, message=pb.Message(value=BAD))
            services.PublisherStub(channel).Publish(request)
        except grpc.RpcError as error:
            return str(error.details())
    return ""


def over_text(server: Server, topic: str) -> str:
    with socket.create_connection(("127.0.0.1", server.ports["text"])) as connection:
        connection.sendall(f"PRODUCE {topic} 0 ".encode() + BAD + b"\r\n")
        return refusal(connection.makefile("rb").readline())


def over_kqueue(server: Server, topic: str) -> str:
    body = json.dumps({"Topic": topic, "Payload": BAD.decode()}).encode()
    with socket.create_connection(("127.0.0.1", server.ports["native"])) as connection:
        connection.sendall(b"\x01" + len(body).to_bytes(4, "big") + body)
        return refusal(connection.makefile("rb").readline())


def refusal(line: bytes) -> str:
    """The answer of a protocol of lines, if it is an error."""
    assert line.startswith((b"OK", b"ERR"))
    return line.decode() if line.startswith(b"ERR") else ""


def over_sqs(server: Server, topic: str) -> str:
    sqs = connect(f"http://127.0.0.1:{server.ports['sqs']}")
    try:
        sqs.send_message(QueueUrl=sqs.create_queue(QueueName=topic)["QueueUrl"], MessageBody=BAD.decode())
    except ClientError as error:
        return str(error)
    finally:
        sqs.close()
    return ""


def over_kafka(server: Server, topic: str) -> str:
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{server.ports['kafka']}"})
    producer.produce(topic, BAD, on_delivery=lambda error, _: errors.append(error))
    producer.flush(60)
    [error] = errors
    if error is None:
        return ""
    assert error.code() == KafkaError.INVALID_RECORD
    return WHY  # librdkafka shows the number only; test_typed_topics.py of Kafka looks at the words.


@pytest.mark.slow
@pytest.mark.parametrize(
    "publish", [over_native, over_http, over_grpc, over_text, over_kqueue, over_sqs, over_kafka]
)
class TestEveryProtocol:
    def test_says_where_and_why_a_value_is_refused(
        self, server: Server, publish: Callable[[Server, str], str]
    ) -> None:
        assert WHY in publish(server, "reject")

        with penstock.connect(server.url) as broker:
            assert broker.describe_topic("reject").messages == 0

    def test_accepts_a_value_that_becomes_a_dead_letter(
        self, server: Server, publish: Callable[[Server, str], str]
    ) -> None:
        with penstock.connect(server.url) as broker:
            before = broker.dead_letters("dead-letter")
            assert publish(server, "dead-letter") == ""
            # What is decided when the publish is answered is written to the topic of dead letters afterwards.
            until(lambda: len(broker.dead_letters("dead-letter")) > len(before))
            [letter] = broker.dead_letters("dead-letter")[len(before) :]
            assert (letter.message.value, letter.reason) == (BAD, "invalid value")
            assert WHY in (letter.error or "")
            assert broker.read("dead-letter", partition=0, offset=0) == []

    def test_accepts_every_value_without_validation(
        self, server: Server, publish: Callable[[Server, str], str]
    ) -> None:
        with penstock.connect(server.url) as broker:
            before = broker.describe_topic("off").messages
            assert publish(server, "off") == ""
            assert broker.describe_topic("off").messages == before + 1


@pytest.mark.slow
def test_confluents_serializer_registers_its_schema_and_its_values_match(server: Server) -> None:
    schema = '{"type": "record", "name": "Payment", "fields": [{"name": "id", "type": "long"}]}'
    context = SerializationContext("payments", MessageField.VALUE)
    with (
        penstock.connect(server.url) as broker,
        SchemaRegistryClient({"url": f"http://127.0.0.1:{server.ports['http']}"}) as registry,
    ):
        broker.create_topic("payments", validation="reject")
        value = AvroSerializer(registry, schema)({"id": 7}, context)
        assert value is not None

        broker.publish("payments", value)
        with pytest.raises(SchemaMismatch, match="1 bytes follow the value"):
            broker.publish("payments", value + b"x")
