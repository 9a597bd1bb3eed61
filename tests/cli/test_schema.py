"""``penstock schema``."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Cli

from penstock import Message
from penstock.testing import TestBroker

ORDER = {"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": False}
WIDER = {**ORDER, "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}}
OTHER = {**ORDER, "properties": {"id": {"type": "string"}}}
AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def folder(tmp_path: Path, penstock: TestBroker) -> Path:
    penstock.create_topic("orders")
    for name, schema in (("order", ORDER), ("wider", WIDER), ("other", OTHER)):
        (tmp_path / f"{name}.json").write_text(json.dumps(schema))
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO))
    return tmp_path


def test_set_registers_the_next_version(cli: Cli, folder: Path, penstock: TestBroker) -> None:
    first = cli("schema", "set", "orders", str(folder / "order.json"))
    penstock.alter_topic("orders", validation="reject")
    second = cli("schema", "set", "orders", str(folder / "wider.json"))
    refused = cli("schema", "set", "orders", str(folder / "other.json"))

    assert first.code == second.code == 0
    assert first.err.splitlines() == [
        "version 1 of orders-value, id 1",
        "validation is off; see: penstock topic alter orders --set validation=reject",
    ]
    assert second.err.splitlines() == ["version 2 of orders-value, id 2"]
    assert refused.code == 1
    assert refused.err.startswith(
        "penstock schema set: the schema is not BACKWARD compatible with version 2 of 'orders-value'"
    )
    assert [each.version for each in penstock.schema_versions("orders-value")] == [1, 2]


def test_the_type_of_a_schema_is_that_of_its_file(cli: Cli, folder: Path, penstock: TestBroker) -> None:
    (folder / "order").write_text(json.dumps(AVRO))

    unknown = cli("schema", "set", "orders", str(folder / "order"))
    missing = cli("schema", "set", "orders", str(folder / "none.avsc"))
    named = cli("schema", "set", "orders", str(folder / "order"), "--type", "AVRO")

    assert (unknown.code, missing.code, named.code) == (2, 2, 0)
    assert "order: use --type, or a name that ends in .avsc" in unknown.err
    assert penstock.schema("orders-value").type == "AVRO"


def test_get_and_list_show_versions(cli: Cli, folder: Path) -> None:
    cli("schema", "set", "orders", str(folder / "order.json"))
    cli("schema", "set", "orders", str(folder / "wider.json"))

    assert json.loads(cli("schema", "get", "orders").out) == WIDER
    assert json.loads(cli("schema", "get", "orders", "--version", "1").out) == ORDER
    [document] = cli("schema", "get", "orders", "-o", "json").documents
    assert (document["version"], document["type"], json.loads(document["schema"])) == (2, "JSON", WIDER)
    assert cli("schema", "list").lines == ["subject version id type", "orders-value 2 2 JSON"]
    assert [each["version"] for each in cli("schema", "list", "orders", "-o", "json").documents] == [1, 2]
    assert cli("schema", "get", "payments").code == 1


def test_check_compares_a_schema(cli: Cli, folder: Path) -> None:
    cli("schema", "set", "orders", str(folder / "order.json"))

    good = cli("schema", "check", "orders", str(folder / "wider.json"))
    bad = cli("schema", "check", "orders", str(folder / "other.json"))

    assert (good.code, good.out) == (0, "compatible (BACKWARD)\n")
    assert bad.code == 1
    assert bad.out == "/id: the type number is no longer allowed (version 1)\n"
    assert bad.err == "not compatible (BACKWARD): 1 difference\n"


def test_check_finds_messages_that_do_not_match(cli: Cli, folder: Path, penstock: TestBroker) -> None:
    assert cli("schema", "check", "orders").code == 1  # There is no schema.
    cli("schema", "set", "orders", str(folder / "order.json"))
    penstock.publish_batch("orders", [b'{"id": 1}', b'{"id": "\x1b[1m"}', Message(None, key="k"), b"\x00"])

    done = cli("schema", "check", "orders")

    assert done.code == 1
    assert [line.partition(": ")[0] for line in done.out.splitlines()] == ["orders:0:1", "orders:0:3"]
    assert "\x1b" not in done.out
    assert done.err == "3 messages checked, 2 invalid\n"
    assert cli("schema", "check", "orders", "--limit", "1").err == "1 message checked, 0 invalid\n"


def test_diff_shows_the_lines_and_the_levels(cli: Cli, folder: Path) -> None:
    cli("schema", "set", "orders", str(folder / "order.json"))

    done = cli("schema", "diff", "orders", str(folder / "wider.json"))

    assert done.code == 0
    assert done.out.startswith("--- orders-value version 1\n+++ wider.json\n")
    assert '+    "note": {\n' in done.out
    rest = done.out[done.out.index("BACKWARD") :].splitlines()
    assert rest[:2] == ["BACKWARD: compatible", "FORWARD: not compatible"]
    assert rest[2].startswith("  /")


def test_infer_describes_the_messages(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)
    assert cli("schema", "infer", "orders").code == 1
    penstock.publish("orders", b'{"id": 1, "lines": [{"sku": "a"}, {"sku": "b", "n": 2}]}', partition=0)
    penstock.publish("orders", b'{"id": 2, "total": 3, "note": null}', partition=1)
    penstock.publish("orders", b'{"id": 3, "total": 3.5, "note": "x"}', partition=1)
    penstock.publish("orders", b"no JSON", partition=1)

    done = cli("schema", "infer", "orders")

    assert json.loads(done.out) == {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "lines": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"sku": {"type": "string"}, "n": {"type": "integer"}},
                    "required": ["sku"],
                    "additionalProperties": False,
                },
            },
            "total": {"type": "number"},
            "note": {"type": ["null", "string"]},
        },
        "required": ["id"],
        "additionalProperties": False,
    }
    assert done.err == "from 3 messages; 1 not JSON\n"


def test_what_was_inferred_matches_what_it_came_from(cli: Cli, folder: Path, penstock: TestBroker) -> None:
    penstock.publish_batch(
        "orders", [b'{"a": [1, "x", null]}', b'{"a": []}', b'{"b": {"c": 1e300}}', b"[]", b"7"]
    )
    (folder / "inferred.json").write_text(cli("schema", "infer", "orders").out)

    assert cli("schema", "set", "orders", str(folder / "inferred.json")).code == 0
    assert cli("schema", "check", "orders").err == "5 messages checked, 0 invalid\n"


def test_avro_values_are_shown_as_json(cli: Cli, folder: Path, penstock: TestBroker) -> None:
    cli("schema", "set", "orders", str(folder / "order.avsc"))
    penstock.publish_batch("orders", [b"\0\0\0\0\1\x0e", b"\0\0\0\0\2\x0e", b"plain"])

    table, values = cli("peek", "orders"), cli("consume", "orders", "--group", "g")
    documents = cli("consume", "orders", "-o", "json").documents
    raw = cli("consume", "orders", "-o", "raw")

    assert [line.rpartition(" ")[2] for line in table.lines] == [
        "value",
        '{"id":7}',
        "\\x00\\x00\\x00\\x00\\x02\\x0e",
        "plain",
    ]
    assert values.out == '{"id":7}\n\0\0\0\0\2\x0e\nplain\n'
    assert [document.get("json") for document in documents] == [{"id": 7}, None, None]
    assert raw.out == "\0\0\0\0\1\x0e\0\0\0\0\2\x0eplain"
