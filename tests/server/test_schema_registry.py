"""Confluent's own client and serializers, unmodified, against a real server; and a server that is killed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass
from tests.server.process import LISTENERS, Server

from penstock.grpc import penstock_pb2

ORDER = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"note","type":"string"}]}'
)
WIDER = ORDER.replace("]}", ',{"name":"total","type":"double","default":0}]}')
STRANGER = ORDER.replace("]}", ',{"name":"total","type":"double"}]}')
JSON_ORDER = (
    '{"type":"object","title":"Order","properties":{"id":{"type":"integer"}},"required":["id"],'
    '"additionalProperties":false}'
)
PROTO = (
    'syntax = "proto3"; package shop; import "address.proto"; message Order { int64 id = 1; Address to = 2; }'
)
ADDRESS = 'syntax = "proto3"; package shop; message Address { string city = 1; }'
VALUE = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("registry"), listeners=(*LISTENERS, "http", "kafka")) as server:
        yield server


@pytest.fixture
def registry(server: Server) -> Iterator[SchemaRegistryClient]:
    with client_of(server) as client:
        for permanent in (False, False, True):  # References last.
            for subject in client.get_subjects(deleted=True):
                with suppress(SchemaRegistryError):  # Deleted already, or still referenced.
                    client.delete_subject(subject, permanent=permanent)
        yield client


def client_of(server: Server) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": f"http://127.0.0.1:{server.ports['http']}", "max.retries": 0})


def refusal(call: Any, *args: Any, **options: Any) -> tuple[int, int]:
    with pytest.raises(SchemaRegistryError) as caught:
        call(*args, **options)
    return caught.value.http_status_code, caught.value.error_code


def test_avro_values_pass_through_kafka_with_confluents_serializers(
    server: Server, registry: SchemaRegistryClient
) -> None:
    place = {"bootstrap.servers": f"127.0.0.1:{server.ports['kafka']}"}
    producer = Producer(place)
    order = {"id": 7, "note": "two books"}

    producer.produce("orders", AvroSerializer(registry, ORDER)(order, VALUE))
    producer.flush(60)
    consumer = Consumer(place | {"group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = consumer.poll(60)
    consumer.close()

    assert message is not None
    assert AvroDeserializer(registry)(message.value(), VALUE) == order
    assert registry.get_subjects() == ["orders-value"]


def test_an_avro_reader_with_a_newer_schema_reads_old_values(registry: SchemaRegistryClient) -> None:
    data = AvroSerializer(registry, ORDER)({"id": 7, "note": "old"}, VALUE)
    AvroSerializer(registry, WIDER)({"id": 8, "note": "new", "total": 1.5}, VALUE)

    value = AvroDeserializer(registry, WIDER)(data, VALUE)

    assert value == {"id": 7, "note": "old", "total": 0.0}
    assert registry.get_versions("orders-value") == [1, 2]


def test_json_values_pass_through_confluents_serializers(registry: SchemaRegistryClient) -> None:
    data = JSONSerializer(JSON_ORDER, registry)({"id": 7}, VALUE)

    assert JSONDeserializer(JSON_ORDER, schema_registry_client=registry)(data, VALUE) == {"id": 7}
    assert registry.get_latest_version("orders-value").schema.schema_type == "JSON"


def test_protobuf_values_pass_through_confluents_serializers(registry: SchemaRegistryClient) -> None:
    kind = penstock_pb2.Message
    message = kind(value=b"two books")

    data = ProtobufSerializer(kind, registry)(message, VALUE)
    plain = ProtobufDeserializer(kind, {"use.deprecated.format": False})
    resolving = ProtobufDeserializer(kind, {"use.deprecated.format": False}, registry)

    assert plain(data, VALUE) == resolving(data, VALUE) == message
    text = registry.get_latest_version("orders-value").schema.schema_str
    assert text is not None
    assert "message Message {" in text


def test_imported_proto_files_are_subjects_of_their_path(registry: SchemaRegistryClient) -> None:
    files = DescriptorPool()
    street = {"name": "street", "number": 1, "type": "TYPE_STRING"}
    address = {
        "name": "shop/address.proto",
        "package": "shop",
        "message_type": [{"name": "Address", "field": [street]}],
    }
    to = {"name": "to", "number": 1, "type": "TYPE_MESSAGE", "type_name": ".shop.Address"}
    order = {
        "name": "order.proto",
        "dependency": ["shop/address.proto"],
        "message_type": [{"name": "Order", "field": [to]}],
    }
    for file in (address, order):
        files.Add(ParseDict(file, FileDescriptorProto()))
    kind = GetMessageClass(files.FindMessageTypeByName("Order"))
    message = ParseDict({"to": {"street": "Main Street"}}, kind())

    data = ProtobufSerializer(kind, registry)(message, VALUE)

    assert registry.get_subjects() == ["orders-value", "shop/address.proto"]
    [reference] = registry.get_latest_version("orders-value").schema.references or []
    assert (reference.subject, reference.version) == ("shop/address.proto", 1)
    assert ProtobufDeserializer(kind, {}, registry)(data, VALUE) == message


def test_a_proto_file_is_the_same_schema_as_its_descriptor(registry: SchemaRegistryClient) -> None:
    registry.register_schema("address", Schema(ADDRESS, "PROTOBUF"))
    references = [SchemaReference("address.proto", "address", 1)]

    made = registry.register_schema("orders-value", Schema(PROTO, "PROTOBUF", references))
    serialized = registry.get_schema(made, fmt="serialized").schema_str

    assert serialized is not None
    assert "message" not in serialized
    assert registry.register_schema("others", Schema(serialized, "PROTOBUF", references)) == made
    assert registry.get_referenced_by("address", 1) == [made]
    assert refusal(registry.delete_subject, "address") == (422, 42206)


def test_errors_have_confluents_codes(registry: SchemaRegistryClient) -> None:
    registry.register_schema("orders-value", Schema(ORDER, "AVRO"))

    codes = {
        "subject": refusal(registry.get_versions, "nobody"),
        "version": refusal(registry.get_version, "orders-value", 9),
        "version number": refusal(registry.get_version, "orders-value", 0),
        "id": refusal(registry.get_schema, 9999),
        "text": refusal(registry.lookup_schema, "orders-value", Schema('"int"', "AVRO")),
        "syntax": refusal(registry.register_schema, "orders-value", Schema('{"type":"recrd"}', "AVRO")),
        "incompatible": refusal(registry.register_schema, "orders-value", Schema(STRANGER, "AVRO")),
        "level": refusal(registry.set_compatibility, "orders-value", "SOMETIMES"),
        "own level": refusal(registry.get_compatibility, "orders-value"),
        "own mode": refusal(registry.get_mode, "orders-value"),
        "mode": refusal(registry.update_mode, "orders-value", "SLEEPING"),
        "permanent": refusal(registry.delete_version, "orders-value", 1, permanent=True),
    }

    assert codes == {
        "subject": (404, 40401),
        "version": (404, 40402),
        "version number": (422, 42202),
        "id": (404, 40403),
        "text": (404, 40403),
        "syntax": (422, 42201),
        "incompatible": (409, 409),
        "level": (422, 42203),
        "own level": (404, 40408),
        "own mode": (404, 40409),
        "mode": (422, 42204),
        "permanent": (404, 40407),
    }


def test_deletions_are_soft_first(registry: SchemaRegistryClient) -> None:
    made = registry.register_schema("orders-value", Schema(ORDER, "AVRO"))

    assert registry.delete_version("orders-value", 1) == 1
    assert refusal(registry.get_versions, "orders-value") == (404, 40401)
    assert refusal(registry.delete_version, "orders-value", 1) == (404, 40406)
    assert registry.get_schema(made).schema_str is not None
    with client_of_same(registry) as fresh:
        assert fresh.register_schema("orders-value", Schema(ORDER, "AVRO")) == made
    assert registry.get_versions("orders-value") == [2]
    assert registry.delete_subject("orders-value") == [2]
    assert registry.delete_subject("orders-value", permanent=True) == [1, 2]
    with client_of_same(registry) as fresh:
        assert refusal(fresh.get_schema, made) == (404, 40403)


def client_of_same(registry: SchemaRegistryClient) -> SchemaRegistryClient:
    """Another one, without the cache of the first."""
    return SchemaRegistryClient({"url": registry._rest_client.base_urls[0], "max.retries": 0})


def test_levels_and_modes_are_kept(registry: SchemaRegistryClient) -> None:
    registry.register_schema("orders-value", Schema(ORDER, "AVRO"))
    registry.set_compatibility("orders-value", "NONE")
    registry.register_schema("orders-value", Schema(STRANGER, "AVRO"))
    registry.set_compatibility("orders-value", "FULL_TRANSITIVE")

    assert registry.get_compatibility("orders-value") == "FULL_TRANSITIVE"
    assert registry.get_compatibility() == "BACKWARD"
    assert not registry.test_compatibility("orders-value", Schema(ORDER, "AVRO"))
    registry.update_mode("orders-value", "READONLY")
    assert refusal(registry.register_schema, "orders-value", Schema('"int"', "AVRO")) == (422, 42205)
    registry.delete_mode("orders-value")
    assert refusal(registry.get_mode, "orders-value") == (404, 40409)


def test_the_same_schema_registered_at_once_has_one_id(
    server: Server, registry: SchemaRegistryClient
) -> None:
    def register(index: int) -> int:
        with client_of_same(registry) as client:
            return int(client.register_schema(f"topic-{index % 4}-value", Schema(ORDER, "AVRO")))

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(register, range(32)))

    assert len(ids) == 1
    assert all(registry.get_versions(f"topic-{index}-value") == [1] for index in range(4))


def test_what_was_registered_survives_kills(tmp_path: Path) -> None:
    random, made = Random(7), dict[int, str]()
    with Server(tmp_path, listeners=(*LISTENERS, "http")) as server:
        for life in range(3):
            with client_of(server) as client:
                for index in range(random.randint(2, 6)):
                    text = f'{{"type":"enum","name":"E{life}x{index}","symbols":["A"]}}'
                    made[client.register_schema(f"s{life}x{index}", Schema(text, "AVRO"))] = text
            server.kill()
            server.start()
        with client_of(server) as client:
            known = {number: client.get_schema(number).schema_str for number in made}
            again = {client.register_schema("again", Schema(text, "AVRO")) for text in [*made.values()][:1]}

    assert known == made
    assert again == {1}


def test_subjects_may_have_slashes_as_those_of_imports_in_protobuf(registry: SchemaRegistryClient) -> None:
    registry.register_schema("shop/address.proto", Schema(ADDRESS, "PROTOBUF"))
    reference = SchemaReference("address.proto", "shop/address.proto", 1)
    registry.register_schema("orders-value", Schema(PROTO, "PROTOBUF", [reference]))

    assert registry.get_latest_version("shop/address.proto").version == 1
    assert registry.get_versions("shop/address.proto") == [1]
    with pytest.raises(SchemaRegistryError, match="Subject not found: there is no subject 'shop/versions'"):
        registry.get_latest_version("shop/versions")
