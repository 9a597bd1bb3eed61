"""Typed topics: values are validated whatever way they come, and invalid ones refused or dead-lettered."""

import json
from contextlib import suppress
from io import BytesIO
from random import Random

import fastavro
import pytest
from tests.staged import batch, stage, values_of

from penstock import Message
from penstock.broker.publish import invalid
from penstock.broker.publish import values as validation
from penstock.broker.publish.incoming import Look
from penstock.broker.publish.values import NEWS_MS, TOGETHER_VALUES, _examine_values
from penstock.broker.state import Unlimited
from penstock.broker.steps import Aside
from penstock.errors import PenstockError, QueueFull, SchemaMismatch, StorageFailed
from penstock.log.files import MemoryFiles
from penstock.model.message import Receipt
from penstock.model.schemas import NewSchema, SchemaSettings, SchemaType
from penstock.testing import TestBroker
from penstock.testing.files import Crash, CrashDisk, Fault, FaultyFiles
from penstock.version import compiled
from penstock.wire.compression import ZSTD
from penstock.wire.records import BatchBuilder, encode_values, read_header

ORDER = json.dumps(
    {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "lines": {"type": "array", "items": {"type": "integer"}}},
        "required": ["id"],
        "additionalProperties": False,
    }
)
WIDER = ORDER.replace('"lines"', '"note": {"type": "string"}, "lines"')
AVRO = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
PROTO = 'syntax = "proto3"; message Address { string city = 1; } message Order { int64 id = 1; }'
TREE = '{"type":"record","name":"Tree","fields":[{"name":"left","type":["null","Tree"]}]}'
GOOD, BAD = b'{"id": 1}', b'{"id": "one"}'
MODES = ("reject", "dead-letter")


class Limited(Unlimited):
    """As a node has it, which is always the owner here."""

    limited = True


def typed(broker: TestBroker, mode: str = "reject", partitions: int = 1) -> None:
    broker.create_topic("orders", partitions=partitions, validation=mode)  # type: ignore[arg-type]
    broker.register_schema("orders-value", NewSchema(schema=ORDER, type="JSON"))


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


def avro(schema: str, value: object) -> bytes:
    file = BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(json.loads(schema)), value)
    return file.getvalue()


def append(broker: TestBroker, data: bytes, partition: int = 0) -> Receipt:
    """A batch as a client sends it."""
    publishing = broker._core.publishing
    version = broker._core.state.topic("orders").version
    [answer] = broker._driver.run(publishing.append_batches("orders", version, [(partition, data)], True))
    if not isinstance(answer, Receipt):
        raise answer
    return answer


def numbered(values: list[bytes], producer: int, sequence: int) -> bytes:
    """A batch of a producer that numbers its records."""
    builder = BatchBuilder()
    for value in values:
        builder.add(None, value, [])
    return bytes(builder.build(0, 0, 0, producer, 0, sequence))


def letters(broker: TestBroker) -> list[bytes | None]:
    return [letter.message.value for letter in broker.dead_letters("orders")]


def test_a_batch_that_unpacks_to_much_is_validated_in_a_thread(penstock: TestBroker) -> None:
    typed(penstock)
    penstock.publish("orders", GOOD)  # The schema is parsed.
    small, large = (b'{"id": 1, "lines": [%s1]}' % (b"1," * count) for count in (100, 200_000))
    first = []
    for value in (small, large):
        builder = BatchBuilder()
        builder.add(None, value, [])
        data = bytes(builder.build(0, 0, ZSTD))
        assert len(data) < 1000
        steps = penstock._core.values.check_staged(
            penstock._core.state.topic("orders"), data, read_header(data)
        )
        first.append(next(steps, None))
        steps.close()

    assert first[0] is None
    assert isinstance(first[1], Aside)


@pytest.mark.skipif(compiled(), reason="the lease is replaced")
def test_a_node_of_a_cluster_waits_for_unknown_schemas_once_per_request(penstock: TestBroker) -> None:
    typed(penstock)
    state, clock = penstock._core.state, penstock._core.state.clock
    state.lease = Limited()
    topic = state.topic("orders")
    batches = [bytes(encode_values([framed(number, GOOD)], 0)) for number in range(50, 60)]
    looks = [Look(topic, 0, data) for data in batches]
    begun_ms = clock.steady_ms()

    penstock._driver.run(penstock._core.values.check_looks(topic, looks))

    assert [type(look.refusal) for look in looks] == [SchemaMismatch] * 10
    assert NEWS_MS <= clock.steady_ms() - begun_ms < 2 * NEWS_MS


# What matches.


def test_a_value_that_does_not_match_is_refused_with_its_place_and_the_reason(penstock: TestBroker) -> None:
    typed(penstock)

    with pytest.raises(SchemaMismatch) as caught:
        penstock.publish_batch("orders", [GOOD, b'{"id": 2, "lines": [3, "four"]}'])

    assert caught.value.code == "SCHEMA_MISMATCH"
    assert caught.value.facts == {
        "topic": "orders",
        "index": 1,
        "schema": "version 1 of 'orders-value'",
        "where": "/lines/1",
        "why": '"four" is not of type "integer"',
    }
    assert values_of(penstock, "orders") == []


@pytest.mark.parametrize("index", [0, 1, TOGETHER_VALUES - 1, TOGETHER_VALUES, 2 * TOGETHER_VALUES + 1])
@pytest.mark.parametrize("framing", [False, True])
def test_of_many_values_the_invalid_one_is_named(penstock: TestBroker, index: int, framing: bool) -> None:
    typed(penstock)
    [version] = penstock.schemas()
    values = [GOOD] * (2 * TOGETHER_VALUES + 2)
    values[index] = BAD
    if framing:
        values = [framed(version.id, value) for value in values]

    with pytest.raises(SchemaMismatch) as caught:
        append(penstock, bytes(encode_values(values, 0)))

    assert (caught.value.index, caught.value.where) == (index, "/id")


def some_values(broker: TestBroker, kind: SchemaType) -> list[bytes | None]:
    """Values of two versions of a schema, and others."""
    if kind == "JSON":
        texts, good, bad = (ORDER, WIDER), (GOOD, b'{"id": 1, "note": "n"}'), BAD
    elif kind == "AVRO":
        wider = AVRO.replace("}]", '},{"name":"note","type":"string","default":""}]')
        texts, bad = (AVRO, wider), b""
        good = (avro(AVRO, {"id": 1}), avro(wider, {"id": 1, "note": "n"}))
    else:  # The message is the second one of the file.
        texts, bad = (PROTO, PROTO.replace("id = 1;", "id = 1; string note = 2;")), b"\x02\x02\x08"
        good = (b"\x02\x02\x08\x01", b"\x02\x02\x08\x01\x12\x01n")
    ids = [broker.register_schema("orders-value", NewSchema(schema=text, type=kind)).id for text in texts]
    framed_ones = [framed(number, value) for number in (*ids, 9) for value in (*good, bad, b"")]
    others = [framed(ids[0], b"\x00\x0a\x01x"), framed(ids[0], b"\x02\x09"), b"", b"\0", b"1", b"{" * 2000]
    return [None, *good, bad, *framed_ones, *others]


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_many_values_match_if_each_one_does(penstock: TestBroker, kind: SchemaType) -> None:
    values = some_values(penstock, kind)
    checker = penstock._core.values.checker("orders")
    each = [None if value is None else checker.check(0, value, True) for value in values]
    assert 2 < sum(found is None for found in each) < len(each) - 3
    chance = Random(7)

    for _ in range(1000):
        few = chance.sample(range(len(values)), chance.randint(1, 3))
        chosen = chance.choices(few, k=chance.randint(1, 6))
        expected = [
            found._replace(record=index)
            for index, one in enumerate(chosen)
            if (found := each[one]) is not None
        ]
        assert _examine_values([values[one] for one in chosen], checker, True).findings == expected


@pytest.mark.parametrize(
    ("value", "where"),
    [(b"", "/"), (b"no JSON", "/"), (b"{}", "/"), (b'{"id": 1.5}', "/id"), (framed(9, GOOD), "byte 0")],
)
def test_values_that_do_not_match(penstock: TestBroker, value: bytes, where: str) -> None:
    typed(penstock)

    with pytest.raises(SchemaMismatch) as caught:
        penstock.publish("orders", value)

    assert caught.value.where == where


def test_tombstones_and_values_of_older_versions_match(penstock: TestBroker) -> None:
    typed(penstock)
    wider = penstock.register_schema("orders-value", NewSchema(schema=WIDER, type="JSON"))

    penstock.publish("orders", None, key="k")
    penstock.publish("orders", b'{"id": 1, "note": "new"}')
    penstock.publish("orders", framed(wider.id, b'{"id": 2, "note": "new"}'))
    penstock.publish("orders", framed(1, GOOD))

    with pytest.raises(SchemaMismatch, match="version 1 of 'orders-value'"):
        penstock.publish("orders", framed(1, b'{"id": 1, "note": "new"}'))
    assert penstock.describe_topic("orders").messages == 4


def test_avro_values_name_a_schema_of_the_subject(penstock: TestBroker) -> None:
    penstock.create_topic("orders", validation="reject")
    order = penstock.register_schema("orders-value", NewSchema(schema=AVRO))
    other = penstock.register_schema("others-value", NewSchema(schema=TREE))

    penstock.publish("orders", framed(order.id, avro(AVRO, {"id": 7})))

    for value, why in (
        (GOOD, "AVRO values begin with a zero byte"),
        (framed(order.id, b""), "the value ends too early"),
        (framed(order.id, b"\x02\x02"), "1 bytes follow the value"),
        (framed(other.id, b"\x00"), f"schema id {other.id} is not one of the subject's"),
    ):
        with pytest.raises(SchemaMismatch) as caught:
            penstock.publish("orders", value)
        assert why in str(caught.value)


@pytest.mark.slow
def test_protobuf_values_name_their_message(penstock: TestBroker) -> None:
    penstock.create_topic("orders", validation="reject")
    schema_id = penstock.register_schema("orders-value", NewSchema(schema=PROTO, type="PROTOBUF")).id

    penstock.publish("orders", framed(schema_id, b"\x00\x0a\x05Paris"))  # The first one, Address.
    penstock.publish("orders", framed(schema_id, b"\x02\x02\x08\x07"))  # Order.

    for data in (b"\x02\x02\x08", b"\x02\x04\x08\x07", b"\x80", b"\x00\x0a\x01\xff"):
        with pytest.raises(SchemaMismatch):
            penstock.publish("orders", framed(schema_id, data))


def test_an_avro_value_that_is_nested_without_end_is_a_mismatch(penstock: TestBroker) -> None:
    penstock.create_topic("orders", validation="reject")
    schema_id = penstock.register_schema("orders-value", NewSchema(schema=TREE)).id
    penstock.publish("orders", framed(schema_id, b"\x02" * 50 + b"\x00"))

    with pytest.raises(SchemaMismatch, match="nested too deeply"):  # It used to overflow the stack.
        penstock.publish("orders", framed(schema_id, b"\x02" * 500_000 + b"\x00"))


def test_without_a_schema_nothing_matches(penstock: TestBroker) -> None:
    penstock.create_topic("orders", validation="reject")

    with pytest.raises(SchemaMismatch, match="'orders-value': at byte 0: the subject has no schema"):
        penstock.publish("orders", GOOD)
    penstock.register_schema("orders-value", NewSchema(schema=ORDER, type="JSON"))
    penstock.publish("orders", GOOD)


def test_validation_can_be_turned_on_and_off(penstock: TestBroker) -> None:
    typed(penstock, "off")
    penstock.publish("orders", BAD)

    penstock.alter_topic("orders", validation="reject")
    with pytest.raises(SchemaMismatch):
        penstock.publish("orders", BAD)
    penstock.alter_topic("orders", validation="off")
    penstock.publish("orders", BAD)

    assert values_of(penstock, "orders") == [BAD, BAD]


# Ways in.


def test_every_way_of_publishing_is_validated(penstock: TestBroker) -> None:
    typed(penstock)
    penstock.create_topic("inbox")
    penstock.publish("inbox", b"x")
    consumer = penstock.consumer("inbox")
    [message] = consumer.receive()

    for publish in (
        lambda: penstock.publish("orders", BAD),
        lambda: penstock.publish_batch("orders", [GOOD, BAD]),
        lambda: penstock.publish_batch("orders", [Message(BAD, key="k")]),
        lambda: penstock.publish("orders", BAD, delay="1h"),
        lambda: penstock.schedule("orders", BAD, cron="* * * * *"),
        lambda: penstock.producer().publish("orders", BAD),
        lambda: consumer.ack(message, publish=[("orders", Message(BAD))]),
        lambda: penstock.publish_staged("orders", "job", 0, stage(penstock, "t", (0, batch([GOOD, BAD])))),
    ):
        with pytest.raises(SchemaMismatch):
            publish()

    assert penstock.describe_topic("orders").messages == penstock.describe_topic("orders").scheduled == 0
    consumer.ack(message, publish=[("orders", Message(GOOD))])
    assert values_of(penstock, "orders") == [GOOD]


@pytest.mark.parametrize("mode", MODES)
def test_a_transaction_with_an_invalid_value_is_refused(penstock: TestBroker, mode: str) -> None:
    typed(penstock, mode)

    with pytest.raises(SchemaMismatch), penstock.transaction() as transaction:
        transaction.publish("orders", GOOD)
        transaction.publish("orders", BAD)

    assert values_of(penstock, "orders") == letters(penstock) == []


# Dead letters.


def test_invalid_values_of_a_batch_become_dead_letters_and_the_others_are_delivered(
    penstock: TestBroker,
) -> None:
    typed(penstock, "dead-letter")

    receipts = penstock.publish_batch("orders", [GOOD, BAD, b'{"id": 3}'])

    assert sorted(receipt.offset or 0 for receipt in receipts) == [0, 1, 2]
    assert sorted(values_of(penstock, "orders")) == [GOOD, b'{"id": 3}']
    [letter] = penstock.dead_letters("orders")
    assert letter.message.value == BAD
    assert letter.source == f"orders:0:{receipts[1].offset}"
    assert (letter.reason, letter.group, letter.attempts) == ("invalid value", "", 0)
    assert letter.error == (
        "SchemaMismatch: it does not match version 1 of 'orders-value': at /id: "
        '"one" is not of type "integer"'
    )
    consumer = penstock.consumer("orders")
    received = consumer.receive(10)
    assert sorted(message.value for message in received) == [GOOD, b'{"id": 3}']
    consumer.ack(received)
    assert penstock.describe_topic("orders").depth == 0


def test_invalid_values_of_an_encoded_batch_leave_their_offsets_empty(penstock: TestBroker) -> None:
    typed(penstock, "dead-letter", partitions=2)
    penstock.publish("orders", GOOD, partition=1)

    receipt = append(penstock, bytes(encode_values([BAD, GOOD, BAD, BAD], 0)), partition=1)

    assert receipt.offset == 1
    assert [message.offset for message in penstock.read("orders", partition=1)] == [0, 2]
    assert [letter.source for letter in penstock.dead_letters("orders")] == [
        "orders:1:1",
        "orders:1:3",
        "orders:1:4",
    ]


@pytest.mark.parametrize(("limit", "value"), [("WAITING_MAX", 3), ("WAITING_BYTES_MAX", 300)])
def test_invalid_values_are_refused_while_many_letters_wait_for_their_topic(
    penstock: TestBroker, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(invalid, limit, value)
    typed(penstock, "dead-letter")
    penstock.publish("orders", BAD)
    log = penstock._core.state.topic("orders.dlq").partitions[0].log
    log.reject(StorageFailed(path="orders.dlq", why="input/output error"))

    penstock.publish_batch("orders", [BAD] * 5)
    with pytest.raises(QueueFull, match=r"orders\.dlq"):
        penstock.publish("orders", BAD)
    with pytest.raises(QueueFull, match=r"orders\.dlq"):
        append(penstock, bytes(encode_values([GOOD, BAD], 0)))
    penstock.publish("orders", GOOD)

    assert values_of(penstock, "orders") == [GOOD]
    assert len(penstock._core.state.topic("orders").partitions[0].outbox) == 5


def test_a_repeated_batch_makes_no_second_letter(penstock: TestBroker) -> None:
    typed(penstock, "dead-letter")
    producer = penstock._core.state.registry.new_producer_id()
    mixed, bad = numbered([GOOD, BAD], producer, 0), numbered([BAD, BAD], producer, 2)

    first = [append(penstock, mixed), append(penstock, bad)]
    again = [append(penstock, mixed), append(penstock, bad)]

    assert [receipt.offset for receipt in first] == [receipt.offset for receipt in again] == [0, 2]
    assert [receipt.duplicate for receipt in again] == [True, True]
    assert values_of(penstock, "orders") == [GOOD]
    assert len(letters(penstock)) == 3
    append(penstock, numbered([GOOD], producer, 4))
    assert values_of(penstock, "orders") == [GOOD, GOOD]


def test_a_repeat_is_answered_as_before_although_the_schema_has_changed(penstock: TestBroker) -> None:
    typed(penstock)
    producer = penstock._core.state.registry.new_producer_id()
    append(penstock, numbered([GOOD], producer, 0))
    penstock.alter_schema_settings("orders-value", SchemaSettings(compatibility="NONE"))
    penstock.register_schema("orders-value", NewSchema(schema='{"type": "string"}', type="JSON"))

    assert append(penstock, numbered([GOOD], producer, 0)).duplicate
    with pytest.raises(SchemaMismatch):
        append(penstock, numbered([GOOD], producer, 1))


def test_a_delayed_message_is_looked_at_when_it_is_published(penstock: TestBroker) -> None:
    typed(penstock, "dead-letter")

    receipt = penstock.publish("orders", BAD, delay="1h")
    penstock.publish("orders", GOOD, delay="1h")

    assert receipt.schedule_id is None
    assert letters(penstock) == [BAD]
    penstock.alter_schema_settings("orders-value", SchemaSettings(compatibility="NONE"))
    penstock.register_schema("orders-value", NewSchema(schema='{"type": "string"}', type="JSON"))
    penstock.advance("1h")
    assert values_of(penstock, "orders") == [GOOD]


def test_redriven_letters_must_match(penstock: TestBroker) -> None:
    typed(penstock, "dead-letter")
    note = b'{"id": 1, "note": "new"}'
    penstock.publish_batch("orders", [BAD, note])
    assert penstock.redrive("orders").redriven == 0
    penstock.register_schema("orders-value", NewSchema(schema=WIDER, type="JSON"))

    assert penstock.redrive("orders").redriven == 1

    assert letters(penstock) == [BAD]
    for group in ("billing", "shipping"):  # None has failed with it, so all get it.
        [message] = penstock.consumer("orders", group=group, start="earliest").receive(10)
        assert message.value == note


def test_letters_and_offsets_survive_a_restart() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        typed(broker, "dead-letter")
        broker.publish_batch("orders", [BAD, GOOD])
        append(broker, bytes(encode_values([BAD, BAD], 0)))

    with TestBroker.open("data", files=files) as broker:
        assert letters(broker) == [BAD, BAD, BAD]
        assert values_of(broker, "orders") == [GOOD]
        assert broker.publish("orders", GOOD).offset == 4


@pytest.mark.slow
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.TEAR])
def test_a_power_cut_loses_no_letter_of_a_batch_that_is_sent_again(fault: Fault) -> None:
    """Whatever the disk has forgotten, a producer that repeats its batch finds both messages."""
    at, crashed = 0, True
    while crashed:
        at += 1
        for seed in range(8):
            crashed = _cut_power(at, fault, seed)
    assert at > 4, "the journal and the log are written and synced"


def _cut_power(at: int, fault: Fault, seed: int) -> bool:
    """Cut the power at one of the operations of a publish; whether there are so many."""
    disk = CrashDisk()
    with TestBroker.open("data", files=disk) as broker:
        typed(broker, "dead-letter")
        producer = broker._core.state.registry.new_producer_id()
        append(broker, numbered([BAD], producer, 0))  # The topic of the letters is there.
    data = numbered([GOOD, BAD], producer, 1)
    files = FaultyFiles(disk)
    broker = TestBroker.open("data", files=files)
    files._at, files._fault = len(files.operations) + at, fault
    with suppress(Crash, PenstockError):
        append(broker, data)
    crashed = files.crashed
    disk.power_cut(Random(seed))
    with TestBroker.open("data", files=disk) as broker:
        append(broker, data)
        assert values_of(broker, "orders") == [GOOD]
        assert set(letters(broker)) == {BAD}
        assert 2 <= len(letters(broker)) <= 3
    return crashed


def test_a_batch_that_takes_too_long_to_validate_is_refused(
    penstock: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(penstock)
    append(penstock, batch([GOOD]))  # The library is there, the schema is parsed.

    with monkeypatch.context() as slow:
        slow.setattr(validation, "CPU_S_MAX", -1.0)
        with pytest.raises(SchemaMismatch, match="publish fewer at a time"):
            append(penstock, batch([GOOD]))
    append(penstock, batch([GOOD]))

    assert penstock.describe_topic("orders").messages == 2
