"""Which versions of servers and clients were compared."""

import re
import subprocess
from importlib.metadata import PackageNotFoundError, version

from benchmarks.peers.servers import KAFKA, NEWEST, program

# Program: the command that tells its version.  RabbitMQ's own would have to start Erlang as another user.
SERVERS = {
    "nats-server": ["nats-server", "--version"],
    "redis-server": ["redis-server", "--version"],
    "valkey-server": ["valkey-server", "--version"],
    "beanstalkd": ["beanstalkd", "-v"],
    "rabbitmq-server": ["dpkg-query", "-W", "-f", "${Version}", "rabbitmq-server"],
    "erlang": ["dpkg-query", "-W", "-f", "${Version}", "erlang-base"],
}
CLIENTS = (
    "pika", "nats-py", "redis", "hiredis", "greenstalk", "boto3", "moto", "confluent-kafka", "uvloop",
)  # fmt: skip
NUMBER = re.compile(r"\d+(\.\d+)+")


def versions() -> dict[str, str]:
    """By name; what is not there is left out."""
    found = {name: _server(command) for name, command in SERVERS.items()}
    found |= {"kafka": kafka_version()}
    found |= {name: _client(name) for name in CLIENTS}
    return {name: number for name, number in found.items() if number}


def kafka_version() -> str:
    """Of Apache Kafka's jars; empty if they are not there."""
    return next((jar.stem.rpartition("-")[2] for jar in KAFKA.glob("kafka_*.jar")), "")


def _server(command: list[str]) -> str:
    if not (found := program(command[0])):
        return ""
    if found.startswith(str(NEWEST)):
        command = ["chroot", str(NEWEST), *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    match = NUMBER.search(done.stdout + done.stderr) if done.returncode == 0 else None
    return match.group() if match else ""


def _client(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
