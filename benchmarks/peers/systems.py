"""Who takes part, and what its confirmation promises.  Only equal promises are compared.

    synced     the message was on disk, by fsync, when it was confirmed
    written    it was handed to the operating system, or will be synced within some time
    memory     it was in the server's memory

What is not installed is left out, with a note.  Settings for memory alone are
there for W3 and W6, where people choose them; what else a system does is told
by the row that keeps its messages.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from benchmarks.machine import ROOT
from benchmarks.peers import servers
from benchmarks.peers.adapter import Adapter
from benchmarks.peers.servers import Command, Environment, Started, nothing

Promise = Literal["synced", "written", "memory"]
Can = Literal["groups", "ack", "nack", "delay"]
IN_MEMORY = frozenset({"W3", "W6"})


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One row of the table."""

    name: str
    promise: Promise
    adapter: str  # module:class, in adapters/
    mode: str = ""
    command: Command
    filled_by: Command | None = None  # For W10, where the millionth sync would tell nothing of the memory.
    address: str = ""  # With {port}.
    needs: tuple[str, ...]  # Programs and modules.
    note: str
    environment: Environment = nothing
    said: str = ""  # The server's line that tells its address; else the port is tried.
    slow_start: bool = False  # One server for many workloads.
    only: frozenset[str] = frozenset()  # Workloads; empty: all that it can do.
    limit: bool = False  # No broker, but what one in Python could do at most; nobody's rival.
    can: frozenset[Can]  # Beyond publishing and receiving.

    @property
    def ours(self) -> bool:
        """Whether the server is Penstock."""
        return self.command is servers.penstock

    def missing(self) -> str:
        """What is not installed; empty if nothing."""
        return ", ".join(name for name in self.needs if not is_there(name))

    def client(self, address: str) -> Adapter:
        """A new client."""
        return new_client(self.adapter, address, self.mode)

    @contextmanager
    def started(self, directory: Path, *, filling: bool = False) -> Iterator[Started]:
        """Its server, for as long as the block lasts."""
        command = (filling and self.filled_by) or self.command
        with servers.started(command, self.environment, directory, self.address, self.said) as server:
            yield server


def new_client(adapter: str, address: str, mode: str) -> Adapter:
    """A client of the class that is named ``module:class``, in adapters/."""
    module, _, name = adapter.partition(":")
    made: Adapter = getattr(import_module(f"benchmarks.peers.adapters.{module}"), name)(address, mode)
    return made


def is_there(name: str) -> bool:
    """Whether a program, a file below the root of the sources or a module is installed."""
    if "/" in name and not name.startswith("/"):
        return (ROOT / name).exists()
    try:
        return bool(servers.program(name) or find_spec(name))
    except ModuleNotFoundError:
        return False


def _penstock(name: str, promise: Promise, mode: str, note: str, kind: str = "", **more: Any) -> System:
    adapter = "penstock_async:PenstockAsyncAdapter" if kind else "penstock:PenstockAdapter"
    return System(
        name=name, promise=promise, adapter=adapter, mode=mode, command=servers.penstock, needs=(), note=note,
        said="native", can=frozenset({"groups", "ack", "nack", "delay"}), **more,
    )  # fmt: skip


def _penstock_kafka(name: str, promise: Promise, mode: str, note: str, **more: Any) -> System:
    return System(
        name=name, promise=promise, mode="headers", command=servers.penstock,
        environment=servers.setting("PENSTOCK_TOPIC__DURABILITY", mode), needs=("confluent_kafka",),
        note=note, said="kafka",
        **{"adapter": "kafka:KafkaAdapter", "can": frozenset({"groups", "delay"}), **more},
    )  # fmt: skip


def _rabbitmq(name: str, promise: Promise, mode: str, note: str, **more: Any) -> System:
    return System(
        name=name, promise=promise, adapter="rabbitmq:RabbitAdapter", mode=mode, command=servers.rabbitmq,
        environment=servers.rabbitmq_environment, address="amqp://guest:guest@127.0.0.1:{port}/%2F",
        needs=(servers.RABBITMQ, "pika"), note=note, slow_start=True,
        can=frozenset({"groups", "ack", "nack", "delay"}), **more,
    )  # fmt: skip


def _nats(name: str, promise: Promise, mode: str, note: str, sync: str = "", **more: Any) -> System:
    return System(
        name=name, promise=promise, adapter="nats:NatsAdapter", mode=mode, command=servers.nats(sync),
        address="nats://127.0.0.1:{port}", needs=("nats-server", "nats"), note=note,
        can=frozenset({"groups", "ack", "nack"}), **more,
    )  # fmt: skip


def _redis(
    name: str, promise: Promise, sync: str, note: str, server: str = "redis-server", **more: Any
) -> System:
    return System(
        name=name, promise=promise, adapter="redis:RedisAdapter", command=servers.redis(sync, server),
        address="redis://127.0.0.1:{port}", needs=(server, "redis"), note=note,
        can=frozenset({"groups", "ack", "nack"}), **more,
    )  # fmt: skip


def _beanstalkd(name: str, promise: Promise, flags: tuple[str, ...], note: str, **more: Any) -> System:
    return System(
        name=name, promise=promise, adapter="beanstalkd:BeanstalkAdapter", command=servers.beanstalkd(*flags),
        address="127.0.0.1:{port}", needs=("beanstalkd", "greenstalk"), note=note,
        can=frozenset({"ack", "nack", "delay"}), **more,
    )  # fmt: skip


def _apache(name: str, promise: Promise, settings: dict[str, str], note: str, **more: Any) -> System:
    return System(
        name=name, promise=promise, command=servers.kafka(settings), address="127.0.0.1:{port}",
        needs=("java", ".tools/kafka", "confluent_kafka"), note=note, slow_start=True,
        **{"adapter": "kafka:KafkaAdapter", "can": frozenset({"groups"}), **more},
    )  # fmt: skip


FLUSHED = {"log.flush.interval.messages": "1"}
BATCHES = frozenset({"W3"})
SHARE: dict[str, Any] = {  # A group that answers for each message.
    "adapter": "kafka_share:KafkaShareAdapter", "only": frozenset({"W4", "W8"}),
    "can": frozenset({"groups", "ack", "nack"}),
}  # fmt: skip

SYSTEMS: tuple[System, ...] = (
    _penstock("penstock", "synced", "fsync", "durability fsync, the default; the blocking client"),
    _penstock("penstock-async", "synced", "fsync", "the same by the client for asyncio", "async"),
    _penstock_kafka("penstock-kafka", "synced", "fsync", "the same by confluent-kafka, acks=all"),
    _penstock_kafka(
        "penstock-share", "synced", "fsync", "the same by its share consumer", **SHARE
    ),
    _rabbitmq("rabbitmq-classic", "synced", "classic", "durable classic queue, persistent, confirms"),
    _rabbitmq("rabbitmq-quorum", "synced", "quorum", "quorum queue of one node, confirms"),
    _nats("nats-always", "synced", "file", "file storage, synced always", "sync_interval: always"),
    _redis("redis-always", "synced", "always", "append-only file, appendfsync always"),
    _redis("valkey-always", "synced", "always", "Valkey, appendfsync always", "valkey-server"),
    _beanstalkd(
        "beanstalkd", "synced", ("-b", "DIRECTORY", "-f", "0"), "binlog, -f 0 (W10 is filled with -F)",
        filled_by=servers.beanstalkd("-b", "DIRECTORY", "-F"),
    ),
    System(
        name="bare-loop", promise="synced", adapter="bare:BareAdapter", command=servers.bare,
        address="127.0.0.1:{port}", needs=("uvloop",), only=frozenset({"W1", "W7"}), limit=True,
        note="no broker: a loop in Python that appends, syncs and answers; the limit of W1 and W7",
        can=frozenset(),
    ),
    _apache("kafka-flush", "synced", FLUSHED, "acks=all, log.flush.interval.messages=1"),
    _apache("kafka-share-flush", "synced", FLUSHED, "by its share consumer", **SHARE),
    _penstock("penstock-os", "written", "os", "durability os; the blocking client"),
    _nats("nats", "written", "file", "file storage, synced every two minutes, the default"),
    _redis("redis-everysec", "written", "everysec", "append-only file, synced every second"),
    _apache("kafka", "written", {}, "acks=all, synced when the system likes, the default"),
    _apache("kafka-share", "written", {}, "the same by a share consumer", **SHARE),
    _penstock("penstock-memory", "memory", "memory", "durability memory; the blocking client"),
    _penstock("penstock-async-memory", "memory", "memory", "the asyncio client", "async", only=BATCHES),
    _penstock_kafka("penstock-kafka-memory", "memory", "memory", "by confluent-kafka", only=BATCHES),
    _rabbitmq("rabbitmq-transient", "memory", "transient", "transient messages, confirms", only=IN_MEMORY),
    _nats("nats-memory", "memory", "memory", "memory storage", only=IN_MEMORY),
    _redis("redis-memory", "memory", "no", "no append-only file, no snapshots", only=IN_MEMORY),
    _beanstalkd("beanstalkd-memory", "memory", (), "no binlog", only=IN_MEMORY),
    System(
        name="sqs-moto", promise="memory", adapter="sqs:SqsAdapter", command=servers.moto,
        address="http://127.0.0.1:{port}", needs=("boto3", "moto"), note="moto's server", slow_start=True,
        can=frozenset({"ack", "nack", "delay"}),
    ),
)  # fmt: skip
