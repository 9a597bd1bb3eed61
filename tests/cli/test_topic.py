"""``penstock topic``."""

import shlex

import pytest
from tests.cli.conftest import Cli

from penstock.testing import TestBroker


def test_create_makes_a_topic_with_the_settings_that_are_given(cli: Cli, penstock: TestBroker) -> None:
    done = cli(
        "topic", "create", "prices", "--partitions", "3", "--retention", "30d", "--compact",
        "--depth-max", "1000", "--retention-bytes", "none",
        "--set", "tombstone_retention=2d", "--set", "retain_until_settled=yes",
    )  # fmt: skip

    settings = penstock.describe_topic("prices").settings
    assert (done.code, done.out) == (0, "")
    assert done.err == "created topic prices, 3 partitions\n"
    assert settings.partitions == 3
    assert settings.retention_ms == 30 * 86_400_000
    assert settings.retention_bytes is None
    assert settings.compact is True
    assert settings.depth_max == 1000
    assert settings.tombstone_retention_ms == 2 * 86_400_000
    assert settings.retain_until_settled is True


def test_a_topic_that_exists_is_refused_unless_that_is_fine(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)

    refused = cli("topic", "create", "orders")
    fine = cli("topic", "create", "orders", "--if-not-exists")

    assert refused.code == 1
    assert refused.err.startswith("penstock topic create: topic 'orders' already exists; ")
    assert fine.code == 0
    assert penstock.describe_topic("orders").settings.partitions == 2


@pytest.mark.parametrize(("text", "size"), [("1MiB", 1 << 20), ("65536", 65536)])
def test_a_size_is_written_with_its_unit_or_in_bytes(
    text: str, size: int, cli: Cli, penstock: TestBroker
) -> None:
    sizes = ["--set", f"segment_bytes={text}", "--set", "retention_bytes=none"]
    created = cli("topic", "create", "orders", *sizes)
    altered = cli("topic", "alter", "orders", "--set", f"message_bytes_max={text}")

    assert (created.code, altered.code) == (0, 0)
    found = penstock.describe_topic("orders").settings
    assert (found.segment_bytes, found.message_bytes_max, found.retention_bytes) == (size, size, None)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("create", "missing argument 'TOPIC'; see --help"),
        ("create a/b", "invalid value for 'TOPIC': topic name 'a/b' is not allowed: "),
        ("create x --partitions 0", "invalid value for '--partitions': 0 is not in the range x>=1"),
        ("create x --durability now", "invalid value for '--durability': 'now' is not one of "),
        ("create x --retention 3y", "invalid value for '--retention': '3y': write it like '250ms', "),
        ("create x --depth-max few", "invalid value for '--depth-max': 'few' is not a whole number"),
        ("create x --set segment_bytes=few", "invalid value for '--segment-bytes': 'few': a size is a "),
        ("create x --set compact", "invalid value for '--set': 'compact' is not NAME=VALUE"),
        ("create x --set compact=2", "invalid value for '--set': compact must be yes or no, not '2'"),
        ("create x --set tll=1d", "invalid value for '--set': there is no setting 'tll'; did you mean ttl?"),
        ("create x --set qqq=1", "invalid value for '--set': there is no setting 'qqq'; the settings are "),
        ("alter x", "nothing to change; use an option such as --retention 30d"),
        ("delete", "missing argument 'TOPIC'"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_one_sentence(line: str, sentence: str, cli: Cli, servers: list[str]) -> None:
    done = cli("topic", *shlex.split(line))

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"penstock topic {line.split()[0]}: {sentence}")
    assert done.err.count("\n") == 1
    assert servers == []  # Nothing was asked of any server.


def test_list_shows_sizes_and_groups(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)
    penstock.create_topic("audit")
    penstock.publish_batch("orders", [b"x" * 100] * 1200)
    penstock.publish("orders", b"later", delay="1h")
    penstock.create_group("orders", "shipping")

    done = cli("topic", "list")

    assert done.code == 0
    assert done.lines == [
        "topic partitions messages size waiting scheduled groups",
        "audit 1 0 0 B 0 0 0",
        "orders 2 1,200 " + done.lines[2].split()[3] + " kB 1,200 1 1",
    ]


def test_a_name_that_is_too_long_for_a_table_is_not_cut(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("a" * 100)

    done = cli("topic", "list")

    assert done.lines[1] == "a" * 100 + " 1 0 0 B 0 0 0"


def test_no_topics_is_said_on_stderr(cli: Cli) -> None:
    done = cli("topic", "list")

    assert (done.code, done.out) == (0, "")
    assert "no topics yet" in done.err


def test_list_as_json_is_one_document_a_line(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention="1d")
    penstock.publish("orders", b"x")

    done = cli("topic", "list", "-o", "json")

    [document] = done.documents
    assert document["topic"] == "orders"
    assert document["messages"] == 1
    assert document["settings"]["retention_ms"] == 86_400_000
    assert document["partitions"][0]["end"] == 1


def test_describe_shows_the_settings_that_matter(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2, retention="30d", ttl="90m")
    penstock.publish("orders", b"x" * 50, partition=1)

    done = cli("topic", "describe", "orders")

    assert "messages 1 (" in "\n".join(done.lines)
    assert "retention 30 d" in done.lines
    assert "ttl 90 min" in done.lines
    assert not any(line.startswith("depth_max") for line in done.lines)  # A default that nobody asks for.
    assert [line.split()[:3] for line in done.lines[-2:]] == [["0", "0", "0"], ["1", "0", "1"]]


def test_describe_of_a_topic_that_is_not_there_is_a_refusal(cli: Cli) -> None:
    done = cli("topic", "describe", "orders")

    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "penstock topic describe: there is no topic 'orders'; create it with: penstock topic create orders "
        "[TOPIC_NOT_FOUND]\n"
    )


def test_alter_changes_what_is_given_and_nothing_else(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention="1d", depth_max=5, ttl="1h")

    done = cli("topic", "alter", "orders", "--partitions", "4", "--depth-max", "none", "--ttl", "none")

    settings = penstock.describe_topic("orders").settings
    assert done.code == 0
    assert (settings.partitions, settings.depth_max, settings.ttl_ms) == (4, None, None)
    assert settings.retention_ms == 86_400_000


def test_delete_needs_no_answer_in_a_script(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")

    done = cli("topic", "delete", "orders")

    assert done.code == 0
    assert done.err == "deleted topic orders, 1 message\n"
    assert penstock.topics() == []
