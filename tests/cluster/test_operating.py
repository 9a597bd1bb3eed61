"""Operating three real nodes: moves, drains, rolling restarts and removals, under load and from any node."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.load import Load
from tests.cluster.nodes import LISTENERS, PARTITIONS, PATIENCE_S, TOPIC, Nodes, settings
from tests.server.process import Server, until

import penstock
from penstock.cli.main import main
from penstock.errors import (
    NodeNotFound,
    NodeRunning,
    NodeUnfit,
    NotACluster,
    PartitionNotFound,
    TopicNotFound,
)
from penstock.testing import TestBroker


def with_http(home: Path, store: str, number: int) -> Server:
    return Server(home, settings=settings(store, number), listeners=(*LISTENERS, "http"))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("operating")
    with Nodes(folder, f"file://{folder}/store", make=with_http) as nodes:
        with nodes.connect(1) as broker:
            broker.create_topic(TOPIC, partitions=PARTITIONS)
        yield nodes


@pytest.fixture
def operate(nodes: Nodes, capsys: pytest.CaptureFixture[str]) -> Any:
    """``penstock cluster`` against a node; its exit code, results and notes."""

    def run(*words: str, node: int = 1) -> tuple[int, str, str]:
        code = main(["cluster", *words, "--server", nodes.servers[node - 1].url])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def owners(broker: penstock.Broker) -> dict[int, int]:
    return {each.partition: each.node for each in broker.cluster_info().partitions}


def test_a_partition_is_moved_to_a_node_and_stays_there(nodes: Nodes, operate: Any) -> None:
    with nodes.connect(2) as broker:
        target = owners(broker)[0] % 3 + 1

        with Load(nodes, [1, 2, 3]) as load:
            load.wait_for(10)
            assert operate("move", f"{TOPIC}:0", str(target), node=3) == (
                0, "", f"1 partition moved to node {target}\n",
            )  # fmt: skip
            load.wait_for(10)

        assert load.failures == []
        assert owners(broker)[0] == target
        found = next(each for each in broker.cluster_info().partitions if each.partition == 0)
        assert found.preferred == target
        assert operate("move", f"{TOPIC}:0", str(target))[2].endswith("and stays there\n")
        load.check(broker)


def test_a_node_is_drained_and_used_again(nodes: Nodes, operate: Any) -> None:
    with nodes.connect(1) as broker:
        with Load(nodes, [1, 2, 3]) as load:
            load.wait_for(10)
            assert operate("drain", "2")[0] == 0
            assert 2 not in owners(broker).values()
            broker.create_topic("new", partitions=9)
            assert {each.node for each in broker.cluster_info().partitions} == {1, 3}
            states = ["up", "draining", "up"]
            until(lambda: [node.state for node in broker.cluster_info().nodes] == states)
            load.wait_for(10)
            assert operate("drain", "2", "--undo")[0] == 0
            assert operate("balance", node=3)[0] == 0
            load.wait_for(10)

        assert load.failures == []
        load.check(broker)
        counts = [node.partitions for node in broker.cluster_info().nodes]
        assert max(counts) - min(counts) <= 1
        assert operate("balance", "--dry-run")[2] == "0 partitions would move\n"
        broker.delete_topic("new")


def test_the_tables_and_documents_of_a_cluster(nodes: Nodes, operate: Any) -> None:
    until(lambda: "3 of 3 up" in operate("status")[1])
    code, table, _ = operate("status", node=2)
    assert code == 0
    assert "3 of 3 up" in table
    assert f"{PARTITIONS}, all have an owner" in table
    assert [word for word in table.splitlines()[-2].split() if word == "NODE"] == ["NODE"] * 3
    [document] = map(json.loads, operate("status", "-o", "json")[1].splitlines())
    assert len(document["partitions"]) == PARTITIONS
    rows = operate("nodes")[1].splitlines()
    assert [row.split()[:2] for row in rows[1:]] == [["1", "up"], ["2", "up"], ["3", "up"]]
    assert [json.loads(line)["node"] for line in operate("nodes", "-o", "json")[1].splitlines()] == [1, 2, 3]


def test_a_node_reports_its_commits_and_takeovers(nodes: Nodes) -> None:
    with nodes.connect(1) as broker:

        def all_have_committed() -> bool:
            """A node that is busy may not answer in time."""
            reports = [node.report for node in broker.cluster_info().nodes]
            return all(each is not None and each.commit_seconds_p99 > 0 < each.commits for each in reports)

        until(lambda: [node.state for node in broker.cluster_info().nodes] == ["up"] * 3)
        broker.balance_partitions()  # One that was restarted a moment ago owns nothing yet.
        with Load(nodes, [1, 2], writers=PARTITIONS):
            until(all_have_committed)
        broker.drain_node(2)
        until(lambda: any(each.previous == 2 and each.clean for each in broker.cluster_info().takeovers))
        broker.drain_node(2, undo=True)


def test_the_same_over_http(nodes: Nodes) -> None:
    def ask(method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        address = HTTPConnection("127.0.0.1", nodes.servers[1].ports["http"], timeout=PATIENCE_S)
        headers = {"content-type": "application/json"}
        with closing(address) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, json.loads(text) if text.startswith("{") else text

    moved = ask("POST", "/v1/cluster/move", {"topic": TOPIC, "partition": 1, "node": 3})
    status, found = ask("GET", "/v1/cluster")

    assert moved[0] == status == 200
    assert [each["node"] for each in found["partitions"] if each["partition"] == 1] == [3]
    assert ask("POST", "/v1/cluster/nodes/2/drain", {})[1]["left"] == 0
    assert ask("POST", "/v1/cluster/nodes/2/drain", {"undo": True})[0] == 200
    assert ask("POST", "/v1/cluster/balance", {})[1]["left"] == 0
    assert ask("DELETE", "/v1/cluster/nodes/2")[1]["code"] == "NODE_RUNNING"
    assert ask("DELETE", "/v1/cluster/nodes/two")[1]["code"] == "VALUE_INVALID"
    assert "\npenstock_cluster_nodes 3\n" in ask("GET", "/metrics")[1]
    assert ask("GET", "/ui/session")[1]["cluster"] is True


def test_each_mistake_has_its_own_error(nodes: Nodes, operate: Any) -> None:
    with nodes.connect(3) as broker:
        with pytest.raises(NodeNotFound, match="no node 9; its nodes are 1, 2, 3"):
            broker.drain_node(9)
        with pytest.raises(NodeRunning, match="node 2 is running"):
            broker.remove_node(2)
        with pytest.raises(TopicNotFound):
            broker.move_partition("nowhere", 0, 1)
        with pytest.raises(PartitionNotFound):
            broker.move_partition(TOPIC, PARTITIONS, 1)
        broker.drain_node(1)
        with pytest.raises(NodeUnfit, match="being drained"):
            broker.move_partition(TOPIC, 0, 1)
        broker.drain_node(2)
        with pytest.raises(NodeUnfit, match="no other node"):
            broker.drain_node(3)
        broker.drain_node(1, undo=True)
        broker.drain_node(2, undo=True)
    assert operate("move", "orders", "1")[0] == 2


def test_a_single_server_is_not_a_cluster() -> None:
    with TestBroker.open() as broker:
        for ask in (
            broker.cluster_info,
            lambda: broker.drain_node(1),
            lambda: broker.remove_node(1),
            lambda: broker.move_partition("orders", 0, 1),
            broker.balance_partitions,
        ):
            with pytest.raises(NotACluster):
                ask()


def test_a_rolling_restart_is_not_noticed_by_any_program(nodes: Nodes) -> None:
    with Load(nodes, [1, 2, 3], kafka=2, readers=1) as load:
        load.wait_for(10)
        for server in nodes.servers:
            assert server.stop() == 0
            load_goes_on = list(load.counts)
            server.start()
            load.wait_for(10)
            assert min(now - before for now, before in zip(load.counts, load_goes_on, strict=True)) >= 10

    assert load.failures == []
    with nodes.connect(1) as broker:
        load.check(broker)


def test_a_node_that_has_stopped_is_removed(nodes: Nodes, operate: Any) -> None:
    nodes.servers[2].stop()
    with nodes.connect(1) as broker:
        until(lambda: [node.state for node in broker.cluster_info().nodes][2] == "stopped")
        assert 3 not in owners(broker).values()
        with pytest.raises(NodeUnfit, match="it is stopped"):
            broker.move_partition(TOPIC, 0, 3)

        assert operate("remove", "3")[0] == 0

        assert [node.node for node in broker.cluster_info().nodes] == [1, 2]
        assert operate("remove", "3")[2].startswith("penstock cluster remove: the cluster has no node 3")
        nodes.servers[2].start()
        assert [node.node for node in broker.cluster_info().nodes] == [1, 2, 3]
