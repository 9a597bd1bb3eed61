"""Servers while they run: how each is started, on loopback and with its data in a directory, and ended.

A command gets a directory that is empty and a port that is free.  Settings
that matter for the comparison are here; what a confirmation then promises is
said in systems.py.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from benchmarks.machine import ROOT, cpu_seconds, resident_bytes
from benchmarks.processes import said_until_ready

START_S = 60.0
RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"
NEWEST = ROOT / ".tools" / "peers"  # A Debian system with the newest packages: scripts/install-peers.
KAFKA = ROOT / ".tools" / "kafka"  # The jars: scripts/install-kafka.
# In a mount namespace of its own, so that nothing stays mounted: $1 is the directory of the server's data.
_ENTER = (
    f'cd {NEWEST} && mkdir -p ".$1" && mount --bind "$1" ".$1" && mount --rbind /proc proc'
    f' && mount --rbind /dev dev && shift && exec chroot {NEWEST} "$@"'
)

Command = Callable[[Path, int], list[str]]
Environment = Callable[[Path, int], dict[str, str]]


@dataclass(frozen=True, slots=True)
class Started:
    """A server that runs; without a process if somebody else started it, and it tells nothing of itself."""

    address: str
    process: subprocess.Popen[str] | None = None

    def resident_mb(self) -> float:
        """The memory of it and its children."""
        return sum(map(resident_bytes, self._family())) / 1e6

    def cpu_s(self) -> float:
        """What they used of the CPU."""
        return sum(map(cpu_seconds, self._family()))

    def _family(self) -> list[int]:
        found = [self.process.pid] if self.process else []
        for pid in found:  # It grows meanwhile.
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        return found


class NotStartedError(RuntimeError):
    """A server that ended, or was not reached in time."""


@contextmanager
def started(
    command: Command, environment: Environment, directory: Path, address: str, said: str
) -> Iterator[Started]:
    """The server, for as long as the block lasts; ``said``: the line in which it tells its address."""
    port = free_port()
    said_path = directory / "server.log"
    with said_path.open("w") as log:
        process = subprocess.Popen(
            command(directory, port),
            stdout=subprocess.PIPE if said else log,
            stderr=log,
            env=os.environ | environment(directory, port),
            text=True,
            start_new_session=True,
        )
        try:
            found = _told(process, said) if said else address.format(port=port)
            if not said:
                wait_for(process, port, said_path)
            elif not found:
                raise NotStartedError(f"it did not start: {_last_line(said_path)}")
            yield Started(found, process)
        finally:
            end(process)


def _told(process: subprocess.Popen[str], name: str) -> str:
    def line() -> str:
        assert process.stdout is not None
        if read := process.stdout.readline():
            return read.strip()
        raise EOFError

    try:
        return said_until_ready(line)[name]
    except EOFError:  # It has ended.
        return ""


def wait_for(process: subprocess.Popen[str], port: int, log: Path, start_s: float = START_S) -> None:
    """Until the server listens; ``log`` is what it says if it does not."""
    deadline = time.monotonic() + start_s
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise NotStartedError(f"it did not start: {_last_line(log)}")


def _last_line(path: Path) -> str:
    lines = path.read_text().strip().splitlines()
    return lines[-1].replace(str(path.parent), "...") if lines else "it said nothing"


def end(process: subprocess.Popen[str]) -> None:
    """It and all that it started: nothing of it is needed any more."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def free_port() -> int:
    """One that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        return int(made.getsockname()[1])


def program(name: str) -> str:
    """Where a server's program is, in the newest packages or on this system; empty if nowhere."""
    for folder in ("usr/sbin", "usr/bin", "."):
        if os.geteuid() == 0 and (found := NEWEST / folder / name.lstrip("/")).exists():
            return str(found)
    return shutil.which(name) or ""


def packaged(directory: Path, *command: str) -> list[str]:
    """The command on the newest packages if they were installed, else on those of this system."""
    if not program(command[0]).startswith(str(NEWEST)):
        return list(command)
    return ["unshare", "--mount", "sh", "-c", _ENTER, "sh", str(directory), *command]


def nothing(_: Path, __: int) -> dict[str, str]:
    """No environment of its own."""
    return {}


def setting(name: str, value: str) -> Environment:
    """One setting by the environment."""
    return lambda _, __: {name: value}


def penstock(directory: Path, port: int) -> list[str]:
    """As it comes, with the two doors that are measured."""
    off = [part for name in ("text", "status", "http") for part in (f"--{name}", "off")]
    gateway = ["--native", "127.0.0.1:0", "--kafka", f"127.0.0.1:{port}", *off]
    return [sys.executable, "-m", "penstock", "serve", "--data", str(directory / "data"), *gateway]


def rabbitmq(directory: Path, _: int) -> list[str]:
    """As it comes; its memory alarm later than by default, so that it does not hold back publishers."""
    (directory / "advanced.config").write_text("[].\n")
    (directory / "rabbitmq.conf").write_text(
        "loopback_users = none\nvm_memory_high_watermark.relative = 0.6\n"
    )
    # Erlang's port mapper would make a daemon of itself and stay; started here, it ends with the rest.
    return packaged(directory, "sh", "-c", f"epmd & exec {RABBITMQ}")


def rabbitmq_environment(directory: Path, port: int) -> dict[str, str]:
    """Everything below the directory and on loopback."""
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


def nats(sync: str = "") -> Command:
    """JetStream in the directory; ``sync`` is a line of its configuration."""

    def command(directory: Path, port: int) -> list[str]:
        config = f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{directory}/data"\n{sync} }}\n'
        (directory / "nats.conf").write_text(config)
        return packaged(directory, "nats-server", "-c", str(directory / "nats.conf"))

    return command


def redis(sync: str, server: str = "redis-server") -> Command:
    """With an append-only file that is synced so, or "no" file; never a snapshot."""
    keep = ["--appendonly", "no"] if sync == "no" else ["--appendonly", "yes", "--appendfsync", sync]

    def command(directory: Path, port: int) -> list[str]:
        place = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(directory), "--save", ""]
        return packaged(directory, server, *place, *keep)

    return command


def beanstalkd(*flags: str) -> Command:
    """With its flags; a binlog (-b) goes to the directory."""

    def command(directory: Path, port: int) -> list[str]:
        given = [str(directory) if flag == "DIRECTORY" else flag for flag in flags]
        return packaged(directory, "beanstalkd", "-l", "127.0.0.1", "-p", str(port), *given)

    return command


def bare(directory: Path, port: int) -> list[str]:
    """No broker: what a loop in Python can do at most."""
    return [sys.executable, "-m", "benchmarks.peers.bare_server", str(directory), str(port)]


def moto(_: Path, port: int) -> list[str]:
    """Moto's server, which is Flask's."""
    return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]


def kafka(settings: Mapping[str, str]) -> Command:
    """One node of Apache Kafka with KRaft, from the jars of Maven Central."""

    def command(directory: Path, port: int) -> list[str]:
        controller = free_port()
        lines = {
            "process.roles": "broker,controller",
            "node.id": "0",
            "controller.quorum.voters": f"0@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": f"{directory}/data",
            "offsets.topic.replication.factor": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **settings,
        }
        config = directory / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return kafka_node(config, kafka_cluster_id())

    return command


def kafka_cluster_id() -> str:
    """A new one."""
    return urlsafe_b64encode(uuid4().bytes).decode()[:22].replace("-", "A")  # No option begins so.


def kafka_node(config: Path, cluster: str) -> list[str]:
    """Make its directory, and run it."""
    java = f"java -Xmx512m -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp '{KAFKA}/*'"
    make = f"{java} kafka.tools.StorageTool format -t {cluster} -c {config}"
    return ["sh", "-c", f"{make} && exec {java} kafka.Kafka {config}"]
