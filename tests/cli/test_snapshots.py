"""``penstock lake snapshot`` and ``penstock lake snapshots``."""

from tests.cli.conftest import Cli

from penstock.testing import TestBroker


def test_a_snapshot_is_taken_once_and_listed(cli: Cli, penstock: TestBroker) -> None:
    assert "there are no snapshots" in cli("lake", "snapshots").err
    penstock.create_topic("orders", partitions=2)
    penstock.create_topic("users")
    penstock.publish_batch("orders", [b"1", b"2", b"3"])

    first = cli("lake", "snapshot", "noon")
    penstock.advance("1h")
    cli("lake", "snapshot", "one-o-clock", "--topics", "users")
    again = cli("lake", "snapshot", "noon")

    assert (first.code, first.err.startswith("noon: 3 partitions of 2 topics at ")) == (0, True)
    assert (again.code, "names cannot be reused" in again.err) == (1, True)
    listed = cli("lake", "snapshots")
    assert [line.split()[0] for line in listed.lines] == ["snapshot", "noon", "one-o-clock"]
    assert listed.lines[1].endswith("orders, users 3")
    noon, one = cli("lake", "snapshots", "-o", "json").documents
    assert sorted(noon["topics"]["orders"].values()) == [0, 3]
    assert (one["name"], one["topics"]) == ("one-o-clock", {"users": {"0": 0}})


def test_a_name_that_is_none_is_refused(cli: Cli, servers: list[str]) -> None:
    done = cli("lake", "snapshot", "a/b")

    assert (done.code, "'a/b' is not allowed" in done.err, servers) == (2, True, [])
