"""Clusters of three nodes, while they run: how each is started, on loopback, and how a node is killed.

Every acknowledgement is made as durable as the system can; docs/benchmarks/cluster.md says what it then
promises.  Everything else is as it comes, but for what is said here.  An address names all three nodes, and
a client chooses one, or connects to those that it needs.
"""

import json
import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import penstock
from benchmarks.cluster.nodes import ClusterNode, nodes
from benchmarks.peers import servers
from benchmarks.peers.servers import free_port
from benchmarks.peers.systems import is_there

NODES = 3
HOST = "127.0.0.1"
START_S = 180.0  # Three at the same time.
CONTROL_S = 60.0


class Cluster(ABC):
    """Three nodes that run."""

    address: str

    @abstractmethod
    def leader(self, queue: str) -> int:
        """The number of the node that acknowledges what is published to the queue."""

    @abstractmethod
    def kill(self, node: int) -> None:
        """End it as a crash of its process would."""


class PenstockCluster(Cluster):
    """The nodes share a store."""

    def __init__(self, started: list[ClusterNode]) -> None:
        self._nodes = started
        self.address = "penstock://" + ",".join(each.url.removeprefix("penstock://") for each in started)

    def leader(self, queue: str) -> int:
        with penstock.connect(self.address) as broker:
            info = broker.cluster_info()
        return next(each.node for each in info.partitions if each.topic == queue)

    def kill(self, node: int) -> None:
        next(each for each in self._nodes if each.number == node).kill()


@dataclass
class Peers(Cluster):
    """Processes that are told of each other when they start."""

    folder: Path
    address: str
    environment: dict[str, str] = field(default_factory=dict)
    processes: dict[int, "subprocess.Popen[str]"] = field(default_factory=dict)

    def start(self, node: int, command: list[str], more: dict[str, str] | None = None) -> None:
        with (self.folder / f"{node}.log").open("w") as log:
            self.processes[node] = subprocess.Popen(
                command, stdout=log, stderr=log, text=True, start_new_session=True,
                env=os.environ | self.environment | (more or {}),
            )  # fmt: skip

    def wait_for(self, ports: dict[int, int]) -> None:
        for node, port in ports.items():
            servers.wait_for(self.processes[node], port, self.folder / f"{node}.log", START_S)

    def kill(self, node: int) -> None:
        servers.end(self.processes[node])

    def end(self) -> None:
        for process in self.processes.values():
            servers.end(process)


class NatsCluster(Peers):
    def leader(self, queue: str) -> int:
        import asyncio

        import nats

        async def ask() -> int:
            connection = await nats.connect(self.address.split(","))
            info = await connection.jetstream().stream_info(queue)
            await connection.close()
            return int(info.cluster.leader)

        return asyncio.run(ask())


class RabbitCluster(Peers):
    def leader(self, queue: str) -> int:
        [found] = [each for each in self._queues() if each["name"].startswith(f"{queue}.")]
        assert len(found["members"]) == NODES, found
        return int(found["leader"].partition("@")[0].removeprefix("peer"))

    def _queues(self) -> list[dict[str, str]]:
        command = [str(Path(servers.RABBITMQ).parent / "rabbitmqctl"), "-q", "-n", "peer1@localhost"]
        command += ["list_queues", "name", "leader", "members", "--formatter", "json"]
        told = subprocess.run(
            servers.packaged(self.folder, *command), env=os.environ | self.environment, capture_output=True,
            text=True, check=True, timeout=CONTROL_S,
        )  # fmt: skip
        found: list[dict[str, str]] = json.loads(told.stdout)
        return found


class KafkaCluster(Peers):
    def leader(self, queue: str) -> int:
        from confluent_kafka.admin import AdminClient

        told = AdminClient({"bootstrap.servers": self.address}).list_topics(queue, timeout=CONTROL_S)
        return int(told.topics[queue].partitions[0].leader)


@contextmanager
def penstock_directory(folder: Path) -> Iterator[Cluster]:
    """On a directory."""
    with nodes(folder / "nodes", f"file://{folder}/store", NODES) as started:
        yield PenstockCluster(started)


@contextmanager
def penstock_postgresql(folder: Path) -> Iterator[Cluster]:
    """On PostgreSQL with a synchronous standby."""
    from tests.store.stores import postgresql

    with postgresql(standby=True) as url, nodes(folder / "nodes", url, NODES) as started:
        yield PenstockCluster(started)


def free_ports() -> dict[int, int]:
    """One for each node."""
    return {node: free_port() for node in range(1, NODES + 1)}


@contextmanager
def nats(folder: Path) -> Iterator[Cluster]:
    """JetStream, synced always."""
    ports, routes = free_ports(), free_ports()
    known = ", ".join(f'"nats://{HOST}:{port}"' for port in routes.values())
    cluster = NatsCluster(folder, ",".join(f"nats://{HOST}:{port}" for port in ports.values()))
    try:
        for node, port in ports.items():
            config = folder / f"{node}.conf"
            config.write_text(
                f'server_name: "{node}"\nlisten: "{HOST}:{port}"\n'
                f'jetstream {{ store_dir: "{folder}/data-{node}"\nsync_interval: always }}\n'
                f'cluster {{ name: bench\nlisten: "{HOST}:{routes[node]}"\nroutes: [{known}] }}\n'
            )
            cluster.start(node, servers.packaged(folder, "nats-server", "-c", str(config)))
        cluster.wait_for(ports)
        yield cluster
    finally:
        cluster.end()


@contextmanager
def rabbitmq(folder: Path) -> Iterator[Cluster]:
    """Its own way to find each other: a list of names; one port mapper, which is number 0 here."""
    ports, mapper = free_ports(), free_port()
    address = ",".join(f"amqp://guest:guest@{HOST}:{port}/%2F" for port in ports.values())
    shared = {"HOME": str(folder), "ERL_EPMD_PORT": str(mapper), "ERL_EPMD_ADDRESS": HOST}
    cluster = RabbitCluster(folder, address, shared)
    cookie = folder / ".erlang.cookie"
    cookie.write_text("BENCHMARK")
    cookie.chmod(0o400)
    names = "".join(
        f"cluster_formation.classic_config.nodes.{node} = peer{node}@localhost\n" for node in ports
    )
    try:
        cluster.start(0, servers.packaged(folder, "epmd"))
        cluster.wait_for({0: mapper})
        for node, port in ports.items():
            own = folder / str(node)
            own.mkdir()
            (own / "advanced.config").write_text("[].\n")
            (own / "rabbitmq.conf").write_text(
                "loopback_users = none\nvm_memory_high_watermark.relative = 0.6\n"
                f"cluster_formation.peer_discovery_backend = classic_config\n{names}"
            )
            environment = servers.rabbitmq_environment(own, port)
            environment |= shared | {"RABBITMQ_NODENAME": f"peer{node}@localhost"}
            cluster.start(node, servers.packaged(folder, servers.RABBITMQ), environment)
        cluster.wait_for(ports)
        yield cluster
    finally:
        cluster.end()


@contextmanager
def kafka(folder: Path) -> Iterator[Cluster]:
    """Brokers that are controllers, too; fewer partitions of internal topics, so that they start sooner."""
    ports, controllers = free_ports(), free_ports()
    cluster_id = servers.kafka_cluster_id()
    cluster = KafkaCluster(folder, ",".join(f"{HOST}:{port}" for port in ports.values()))
    shared = {
        "process.roles": "broker,controller",
        "controller.quorum.voters": ",".join(f"{node}@{HOST}:{port}" for node, port in controllers.items()),
        "controller.listener.names": "CONTROLLER",
        "min.insync.replicas": "2",
        "log.flush.interval.messages": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        shared |= {f"{topic}.replication.factor": "3", f"{topic}.num.partitions": "3"}
    shared |= {"transaction.state.log.min.isr": "2", "share.coordinator.state.topic.min.isr": "2"}
    try:
        for node, port in ports.items():
            lines = shared | {
                "node.id": str(node),
                "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controllers[node]}",
                "log.dirs": f"{folder}/data-{node}",
            }
            config = folder / f"{node}.properties"
            config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
            cluster.start(node, servers.kafka_node(config, cluster_id))
        cluster.wait_for(ports)
        yield cluster
    finally:
        cluster.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One row of the tables."""

    name: str
    adapter: str  # module:class, in benchmarks/peers/adapters
    one_by_one: str = ""  # The same for single messages, if another client is faster there.
    mode: str = ""
    start: Callable[[Path], AbstractContextManager[Cluster]]
    needs: tuple[str, ...] = ()  # Programs, files and modules.
    settings: str
    equal: bool = True  # Whether an acknowledged message survives the loss of any one machine.

    @property
    def ours(self) -> bool:
        """Whether it is Penstock."""
        return self.start in (penstock_directory, penstock_postgresql)

    def missing(self) -> str:
        """What is not installed; empty if nothing."""
        return ", ".join(name for name in self.needs if not is_there(name))


CANDIDATES = (
    Candidate(
        name="penstock-postgresql", adapter="penstock_async:PenstockAsyncAdapter",
        one_by_one="penstock:PenstockAdapter", mode="fsync", start=penstock_postgresql, needs=("psycopg",),
        settings="three nodes; the store is PostgreSQL with a synchronous standby",
    ),
    Candidate(
        name="penstock-directory", adapter="penstock_async:PenstockAsyncAdapter",
        one_by_one="penstock:PenstockAdapter", mode="fsync", start=penstock_directory, equal=False,
        settings="three nodes; the store is a directory",
    ),
    Candidate(
        name="nats", adapter="nats:NatsClusterAdapter", mode="file", start=nats,
        needs=("nats-server", "nats"),
        settings="JetStream, three replicas, `sync_interval: always`",
    ),
    Candidate(
        name="rabbitmq", adapter="rabbitmq:RabbitClusterAdapter", mode="quorum", start=rabbitmq,
        needs=(servers.RABBITMQ, "pika"), settings="quorum queue with three members, publisher confirms",
    ),
    Candidate(
        name="kafka", adapter="kafka_share:KafkaClusterAdapter", start=kafka,
        needs=("java", ".tools/kafka", "confluent_kafka"),
        settings="KRaft, three replicas, `acks=all`, `min.insync.replicas=2`, "
        "`log.flush.interval.messages=1`; three partitions of each internal topic; heap of 512 MB; "
        "consumed by a share group",
    ),
)  # fmt: skip
