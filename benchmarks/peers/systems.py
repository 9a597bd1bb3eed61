"""Who takes part: how each system is started, with what settings, and what its confirmation promises.

A server is started for one workload, on loopback and free ports, with its data
in a directory of that workload, and ended with it.  What is not installed is
left out, with a note.

    synced     the message was on disk, by fsync, when it was confirmed
    written    it was handed to the operating system, or will be synced within some time
    memory     it was in the server's memory
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from benchmarks.peers.adapter import Adapter

Promise = Literal["synced", "written", "memory"]
START_S = 60.0
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Started:
    """A server that runs."""

    address: str
    process: subprocess.Popen[str]

    def resident_mb(self) -> float:
        """The memory of it and its children."""
        pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self._family()]
        return sum(pages) * PAGE_BYTES / 1e6

    def cpu_s(self) -> float:
        """What they used of the CPU."""
        total = 0
        for pid in self._family():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICKS

    def _family(self) -> list[int]:
        found = [self.process.pid]
        for pid in found:  # It grows meanwhile.
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One row of the table."""

    name: str
    promise: Promise
    adapter: str  # module:class
    mode: str
    command: Callable[[Path, int], list[str]]
    address: str  # With {port}.
    needs: tuple[str, ...]  # Programs and modules.
    note: str
    environment: Callable[[Path, int], dict[str, str]] = field(default=lambda *_: {})
    waits_for: str = ""  # The server's line that tells its address; else the port is tried.

    def missing(self) -> str:
        """What is not installed; empty if nothing."""
        absent = [
            name
            for name in self.needs
            if not (Path(name).exists() or shutil.which(name) or _module_there(name))
        ]
        return ", ".join(absent)

    def client(self, address: str) -> Adapter:
        """A new client."""
        made: Adapter = self._class(address, self.mode)
        return made

    @property
    def can(self) -> frozenset[str]:
        """What its client can do."""
        found: frozenset[str] = self._class.can
        return found

    @property
    def _class(self) -> Any:
        module, _, name = self.adapter.partition(":")
        return getattr(import_module(f"benchmarks.peers.adapters.{module}"), name)

    @contextmanager
    def started(self, directory: Path) -> Iterator[Started]:
        """The server, for as long as the block lasts."""
        port = free_port()
        log = (directory / "server.log").open("w")
        process = subprocess.Popen(
            self.command(directory, port),
            stdout=subprocess.PIPE if self.waits_for else log,
            stderr=log,
            env=os.environ | self.environment(directory, port),
            text=True,
            start_new_session=True,
        )
        try:
            yield Started(self._address(process, port), process)
        finally:
            _end(process)
            log.close()

    def _address(self, process: subprocess.Popen[str], port: int) -> str:
        if not self.waits_for:
            _wait_for_port(process, port)
            return self.address.format(port=port)
        said: dict[str, str] = {}
        assert process.stdout is not None
        while "ready" not in said:
            line = process.stdout.readline()
            assert line, f"{self.name} ended"
            name, _, value = line.strip().partition(" ")
            said[name] = value
        return said[self.waits_for]


def _module_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def free_port() -> int:
    """One that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        return int(made.getsockname()[1])


def _wait_for_port(process: subprocess.Popen[str], port: int) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"the server did not start: see {process.args!r}")


def _end(process: subprocess.Popen[str]) -> None:
    """It and all that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(15)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
    if process.stdout is not None:
        process.stdout.close()


def _penstock(directory: Path, port: int) -> list[str]:
    off = [part for name in ("text", "status", "http") for part in (f"--{name}", "off")]
    doors = ["--native", "127.0.0.1:0", "--kafka", f"127.0.0.1:{port}", *off]
    return [sys.executable, "-m", "penstock", "serve", "--data", str(directory / "data"), *doors]


def _rabbitmq(directory: Path, port: int) -> list[str]:
    del port
    (directory / "advanced.config").write_text("[].\n")
    (directory / "rabbitmq.conf").write_text(
        "loopback_users = none\nvm_memory_high_watermark.relative = 0.6\n"
    )
    # Erlang's port mapper would make a daemon of itself and stay; started here, it ends with the rest.
    return ["sh", "-c", f"epmd & exec {RABBITMQ}"]


def _rabbitmq_environment(directory: Path, port: int) -> dict[str, str]:
    return {
        "HOME": str(directory),
        "RABBITMQ_NODENAME": f"peer{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "ERL_EPMD_PORT": str(free_port()),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_MNESIA_BASE": str(directory / "data"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
    }


def _nats(always: bool) -> Callable[[Path, int], list[str]]:
    def command(directory: Path, port: int) -> list[str]:
        sync = "sync_interval: always" if always else ""
        config = f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{directory}/data"\n{sync} }}\n'
        (directory / "nats.conf").write_text(config)
        return ["nats-server", "-c", str(directory / "nats.conf")]

    return command


def _redis(sync: str) -> Callable[[Path, int], list[str]]:
    keep = ["--appendonly", "no"] if sync == "no" else ["--appendonly", "yes", "--appendfsync", sync]

    def command(directory: Path, port: int) -> list[str]:
        place = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(directory), "--save", ""]
        return ["redis-server", *place, *keep]

    return command


def _beanstalkd(keep: bool) -> Callable[[Path, int], list[str]]:
    def command(directory: Path, port: int) -> list[str]:
        kept = ["-b", str(directory), "-f", "0"] if keep else []
        return ["beanstalkd", "-l", "127.0.0.1", "-p", str(port), *kept]

    return command


def _moto(directory: Path, port: int) -> list[str]:
    del directory
    return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]


RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"


def _ours(name: str, promise: Promise, mode: str, note: str) -> System:
    return System(
        name=name, promise=promise, adapter="penstock:PenstockAdapter", mode=mode, command=_penstock,
        address="", needs=(), note=note, waits_for="native",
    )  # fmt: skip


def _kafka(name: str, promise: Promise, mode: str, note: str) -> System:
    return System(
        name=name, promise=promise, adapter="kafka:KafkaAdapter", mode="", command=_penstock,
        environment=lambda *_: {"PENSTOCK_TOPIC__DURABILITY": mode}, address="",
        needs=("confluent_kafka",), note=note, waits_for="kafka",
    )  # fmt: skip


def _rabbit(name: str, promise: Promise, mode: str, note: str) -> System:
    return System(
        name=name, promise=promise, adapter="rabbitmq:RabbitAdapter", mode=mode, command=_rabbitmq,
        environment=_rabbitmq_environment, address="amqp://guest:guest@127.0.0.1:{port}/%2F",
        needs=(RABBITMQ, "pika"), note=note,
    )  # fmt: skip


def _jetstream(name: str, promise: Promise, mode: str, always: bool, note: str) -> System:
    return System(
        name=name, promise=promise, adapter="nats:NatsAdapter", mode=mode, command=_nats(always),
        address="nats://127.0.0.1:{port}", needs=("nats-server", "nats"), note=note,
    )  # fmt: skip


def _streams(name: str, promise: Promise, sync: str, note: str) -> System:
    return System(
        name=name, promise=promise, adapter="redis:RedisAdapter", mode="", command=_redis(sync),
        address="redis://127.0.0.1:{port}", needs=("redis-server", "redis"), note=note,
    )  # fmt: skip


def _tubes(name: str, promise: Promise, keep: bool, note: str) -> System:
    return System(
        name=name, promise=promise, adapter="beanstalkd:BeanstalkAdapter", mode="", command=_beanstalkd(keep),
        address="127.0.0.1:{port}", needs=("beanstalkd", "greenstalk"), note=note,
    )  # fmt: skip


SYSTEMS: tuple[System, ...] = (
    _ours("penstock", "synced", "fsync", "durability fsync, the default"),
    _kafka("penstock-kafka", "synced", "fsync", "the same by confluent-kafka on the Kafka port, acks=all"),
    _rabbit("rabbitmq-classic", "synced", "classic", "durable classic queue, persistent, publisher confirms"),
    _rabbit("rabbitmq-quorum", "synced", "quorum", "quorum queue of one node, publisher confirms"),
    _jetstream("nats-always", "synced", "file", True, "file storage, sync_interval always (2.10 and newer)"),
    _streams("redis-always", "synced", "always", "append-only file, appendfsync always"),
    _tubes("beanstalkd", "synced", True, "binlog, -f 0"),
    _jetstream("nats", "written", "file", False, "file storage, synced every two minutes"),
    _streams("redis-everysec", "written", "everysec", "append-only file, synced every second"),
    _ours("penstock-memory", "memory", "memory", "durability memory"),
    _kafka("penstock-kafka-memory", "memory", "memory", "durability memory by confluent-kafka"),
    _rabbit("rabbitmq-transient", "memory", "transient", "transient messages, publisher confirms"),
    _jetstream("nats-memory", "memory", "memory", False, "memory storage"),
    _streams("redis-memory", "memory", "no", "no append-only file, no snapshots"),
    _tubes("beanstalkd-memory", "memory", False, "no binlog"),
    System(
        name="sqs-moto", promise="memory", adapter="sqs:SqsAdapter", mode="", command=_moto,
        address="http://127.0.0.1:{port}", needs=("boto3", "moto"), note="moto's server",
    ),
)  # fmt: skip
