"""Typed topics and Kafka's clients: which records are invalid, and why."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError
from tests.frontends.kafka.clients import producer, reader, receive
from tests.frontends.kafka.conftest import Server, serving
from tests.frontends.kafka.raw import Raw
from tests.frontends.kafka.test_unreadable_batches import append

from penstock.model.schemas import NewSchema
from penstock.wire.compression import ZSTD
from penstock.wire.kafka.codes import Code
from penstock.wire.records import encode_values

ORDER = '{"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}'
GOOD, BAD = b'{"id": 1}', b'{"id": "one"}'


@pytest.fixture
def kafka() -> Iterator[Server]:
    for server in serving():
        server.run(server.broker.create_topic("strict", partitions=1, validation="reject"))
        server.run(server.broker.create_topic("lenient", partitions=1, validation="dead-letter"))
        for name in ("strict", "lenient"):
            schema = NewSchema(schema=ORDER, type="JSON")
            server.run(server.broker.register_schema(f"{name}-value", schema))
        yield server


@pytest.mark.parametrize("codec", [0, ZSTD])
def test_a_refused_batch_names_its_invalid_records_and_what_is_wrong_with_each(
    kafka: Server, codec: int
) -> None:
    with Raw(kafka) as raw:
        answer = append(raw, bytes(encode_values([GOOD, BAD, b"{}"], 0, codec)), "strict")

    assert answer.error_code == Code.INVALID_RECORD
    assert answer.error_message == (
        "message 1 for topic 'strict' does not match version 1 of 'strict-value': at /id: "
        '"one" is not of type "integer" [SCHEMA_MISMATCH]'
    )
    assert [(each.batch_index, each.batch_index_error_message) for each in answer.record_errors] == [
        (1, 'it does not match version 1 of \'strict-value\': at /id: "one" is not of type "integer"'),
        (2, "it does not match version 1 of 'strict-value': at /: \"id\" is a required property"),
    ]
    assert kafka.run(kafka.broker.describe_topic("strict")).messages == 0


def test_a_batch_too_large_for_the_event_loop_is_validated_as_well(kafka: Server) -> None:
    values = [GOOD] * 30_000 + [BAD] * 200

    with Raw(kafka) as raw:
        answer = append(raw, bytes(encode_values(values, 0)), "strict")

    assert answer.error_code == Code.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == list(range(30_000, 30_100))


def test_a_producer_goes_on_while_its_invalid_records_become_dead_letters(kafka: Server) -> None:
    idempotent = producer(kafka, {"enable.idempotence": True, "linger.ms": 50})
    errors: list[KafkaError | None] = []
    for value in (GOOD, BAD, GOOD, BAD, GOOD):
        idempotent.produce("lenient", value, on_delivery=lambda error, _: errors.append(error))
    idempotent.flush(60)

    consumer = reader(kafka, "lenient")
    received = receive(consumer, 3)
    consumer.close()

    assert errors == [None] * 5
    assert [(message.offset(), message.value()) for message in received] == [(0, GOOD), (2, GOOD), (4, GOOD)]
    letters = kafka.run(kafka.broker.dead_letters("lenient"))
    assert [letter.source for letter in letters] == ["lenient:0:1", "lenient:0:3"]


def test_a_transaction_with_an_invalid_record_is_refused(kafka: Server) -> None:
    transactional = producer(kafka, {"transactional.id": "t"})
    transactional.init_transactions(60)
    transactional.begin_transaction()
    errors: list[KafkaError | None] = []
    transactional.produce("lenient", BAD, on_delivery=lambda error, _: errors.append(error))
    transactional.flush(60)
    transactional.abort_transaction(60)

    assert errors[0] is not None
    assert errors[0].code() == KafkaError.INVALID_RECORD
    assert not kafka.run(kafka.broker.dead_letters("lenient"))
