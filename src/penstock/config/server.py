"""Settings of a server.  Those of brokers, topics and groups are in ``penstock.config.broker``.

Each class is a section of the configuration file, each field is a setting, and the comment above a field is
its row in docs/configuration.md.  A field that ends in ``_ms`` is written without it, as a duration:
``stop_timeout = "10s"``.

Values are validated when a settings object is created.  ``loading.py`` reads them from the file, the
environment and the flags.
"""

from ipaddress import ip_address
from typing import Literal

import msgspec

from penstock.config.broker import MEMORY as MEMORY
from penstock.config.broker import BrokerConfig, GroupSettings, TopicSettings
from penstock.errors import InvalidValue
from penstock.types import duration_text

OFF = "off"
AUTO = "auto"
LOCALHOST = "127.0.0.1"
EVERY_HOST = "0.0.0.0"
PORT_MAX = 65_535
NODES_MAX = 1000
CACHE_BYTES_MIN = 16 * 1024 * 1024  # Less would hold hardly more than what always stays.
_OF_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-_")  # Without a port.
LAKE_SCHEMES = ("s3", "s3a", "gs", "az", "abfss", "abfs")  # Of object stores.
LOG_LEVELS = ("debug", "info", "warning", "error")


def address(name: str, text: str) -> tuple[str, int] | None:
    """Host and port of a listener; None if it is off."""
    if text == OFF:
        return None
    host, _, port = text.rpartition(":")
    if not host:  # A port alone, or ":8080", which loading.py may open to other machines.
        host = LOCALHOST
    if not (port.isascii() and port.isdigit()) or int(port) > PORT_MAX:
        why = "write HOST:PORT such as 127.0.0.1:7070 (0.0.0.0 is every interface), or 'off'"
        raise InvalidValue(name=name, value=text, why=why)
    return host.removeprefix("[").removesuffix("]"), int(port)


def shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # A name, which may be anywhere.
        return False


def _between_commas(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _at_least(name: str, value: int, low: int) -> None:
    if value < low:
        shown = duration_text(low) if name.endswith("_ms") else str(low)
        raise InvalidValue(name=name, value=value, why=f"it must be at least {shown}")


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The process."""

    # Data directory, created if it is missing; ":memory:" keeps everything in memory, until the process ends.
    data: str = "data"
    # How long a shutdown may take: in-flight requests finish, leases are released, state is flushed to disk;
    # what is not flushed by then is recovered at the next start.
    stop_timeout_ms: int = 10_000
    # Lowest level of log lines on stderr.
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def __post_init__(self) -> None:
        if not self.data:
            raise InvalidValue(name="data", value=self.data, why="name a directory, or ':memory:'")
        _at_least("stop_timeout_ms", self.stop_timeout_ms, 1)
        if self.log_level not in LOG_LEVELS:
            raise InvalidValue(
                name="log_level", value=self.log_level, why=f"use one of {', '.join(LOG_LEVELS)}"
            )


class ListenSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Listening addresses: HOST:PORT, a port on 127.0.0.1, or "off"; port 0 picks a free one.

    ":PORT" is every interface if authentication or ``insecure`` is on, and 127.0.0.1 otherwise.
    """

    # The native protocol, for Penstock and KQueue clients.
    native: str = "127.0.0.1:7070"
    # The text protocol, for netcat.
    text: str = "127.0.0.1:3000"
    # Status over HTTP: GET /metrics.
    status: str = "127.0.0.1:8081"
    # The HTTP API and the dashboard; GET /openapi.json describes the API.
    http: str = "127.0.0.1:8080"
    # The Kafka protocol, for unmodified Kafka clients.
    kafka: str = "127.0.0.1:9092"
    # The protocols of Amazon SQS, for unmodified AWS SDKs; the usual port is 9324.
    sqs: str = OFF
    # The gRPC API, usually on port 9000; needs the extra penstock[grpc].
    grpc: str = OFF

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            address(name, getattr(self, name))


class LakeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Location of archived messages."""

    # A directory, or a bucket such as "s3://bucket/lake", "gs://...", "az://container/lake" or "abfss://...",
    # which the server only passes on to archive and query jobs; "auto" is "lake" in the data directory.
    path: str = AUTO

    def __post_init__(self) -> None:
        if not self.path:
            raise InvalidValue(name="path", value=self.path, why="name a directory or a URI, or 'auto'")
        scheme, separator, rest = self.path.partition("://")
        if separator and scheme != "file" and (scheme not in LAKE_SCHEMES or not rest.strip("/")):
            known = ", ".join(f"{each}://bucket/path" for each in LAKE_SCHEMES)
            raise InvalidValue(name="path", value=self.path, why=f"use a directory, or one of {known}")


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The HTTP API."""

    # Origins whose web pages may use the API (CORS), comma-separated, such as "https://app.example.com";
    # "*" allows every page.
    cors_origins: str = ""
    # Host names that requests may use while authentication is off, comma-separated, in addition to localhost,
    # IP addresses and the name that the server listens on.
    hosts: str = ""

    def __post_init__(self) -> None:
        for origin in self.origins:
            scheme, _, authority = origin.partition("://")
            if origin != "*" and (scheme not in ("http", "https") or not authority or "/" in authority):
                why = "an origin is SCHEME://HOST or SCHEME://HOST:PORT, without a path"
                raise InvalidValue(name="cors_origins", value=origin, why=why)
        for name in self.names:
            if not set(name) <= _OF_NAMES:
                raise InvalidValue(name="hosts", value=name, why="write names such as broker.example.com")

    @property
    def origins(self) -> list[str]:
        return [origin.lower() for origin in _between_commas(self.cors_origins)]

    @property
    def names(self) -> list[str]:
        return [name.lower() for name in _between_commas(self.hosts)]


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for clients."""

    # Connections of all listeners together; one more gets an error and is closed.
    connections_max: int = 10_000
    # Largest frame of the native and Kafka protocols, checked before any buffer is allocated.
    frame_bytes_max: int = 16 * 1024 * 1024
    # Bytes of publishes, of all connections, that wait for the disk; above this a publish is refused with a
    # retryable error.
    publish_bytes_max: int = 256 * 1024 * 1024
    # Bytes buffered for a client that does not read; above this nothing more is sent until it reads.
    write_buffer_bytes_max: int = 1024 * 1024
    # In-flight requests of one native connection; no more are read until some are answered.
    requests_max: int = 4096
    # How long the consumers of a lost native connection are kept; a client that reconnects in time resumes
    # them.
    resume_ms: int = 5_000
    # Longest line of the text protocol; a longer one closes the connection.
    text_line_bytes_max: int = 2 * 1024 * 1024
    # Unsettled messages of one subscription of the text protocol.
    text_in_flight_max: int = 100
    # Largest head of a status request, and how long it may take to arrive.
    status_head_bytes_max: int = 8 * 1024
    status_timeout_ms: int = 10_000
    # Largest head of an HTTP request, and largest body that is not streamed.
    http_head_bytes_max: int = 32 * 1024
    http_body_bytes_max: int = 16 * 1024 * 1024
    # How long the head of an HTTP request may take, and the longest pause within its body.
    http_timeout_ms: int = 30_000

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            _at_least(name, getattr(self, name), 0 if name == "resume_ms" else 1)


class KafkaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The Kafka protocol."""

    # HOST:PORT at which clients reach this server; "auto" is the address that the client connected to.
    advertised: str = AUTO
    # Accept a replication factor and min.insync.replicas above 1, although there is only one replica.
    accept_replication: bool = False
    # How long the first rebalance of a consumer group waits for more members
    # (group.initial.rebalance.delay.ms).
    initial_rebalance_delay_ms: int = 250

    def __post_init__(self) -> None:
        _at_least("initial_rebalance_delay_ms", self.initial_rebalance_delay_ms, 0)
        if self.advertised != AUTO and not address("advertised", self.advertised):
            raise InvalidValue(name="advertised", value=self.advertised, why="write HOST:PORT, or 'auto'")


class GrpcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The gRPC API."""

    # Largest request message; a larger one gets RESOURCE_EXHAUSTED.
    message_bytes_max: int = 16 * 1024 * 1024
    # A connection on which nothing arrives for this long is pinged ...
    keepalive_ms: int = 60_000
    # ... and closed if the ping is not answered for this long.
    keepalive_timeout_ms: int = 20_000

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            _at_least(name, getattr(self, name), 1)


class SecuritySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Authentication."""

    # Require an API key, or a user name and password; at start, a server without an admin creates an admin
    # key.
    authentication: bool = False
    # Allow listening on addresses that other machines can reach while authentication is off.
    insecure: bool = False


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Encryption of all listeners: both files, or neither."""

    # Certificate file, with intermediate certificates, in PEM.
    certificate: str = ""
    # Private key file, in PEM, without a passphrase.
    key: str = ""


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Running on several nodes; see docs/cluster.md."""

    # Name of the cluster; empty: this server is not part of one.
    name: str = ""
    # URL of the store that the cluster commits to, such as "s3://bucket/penstock".
    store: str = ""
    # Number of this node, from 1; each node of a cluster has another one.
    node: int = 0
    # Host name or address under which clients and other nodes reach this node.
    advertise: str = LOCALHOST
    # Listening address for other nodes: HOST:PORT, or a port on 127.0.0.1; port 0 picks a free one.
    peer: str = "127.0.0.1:7071"
    # Old messages are deleted from this node's disk, and fetched from the store when they are read, if all
    # take more than this; 0: never.  The newest messages and the journals always stay.
    cache_bytes: int = 0

    def __post_init__(self) -> None:
        if not address("peer", self.peer):
            raise InvalidValue(name="peer", value=self.peer, why="nodes of a cluster must reach each other")
        if not self.advertise or any(each in self.advertise for each in "/ "):
            raise InvalidValue(
                name="advertise", value=self.advertise, why="write a host name or an IP address"
            )
        if not 0 <= self.node <= NODES_MAX:
            why = f"number the nodes of a cluster from 1 to {NODES_MAX}"
            raise InvalidValue(name="node", value=self.node, why=why)
        if self.cache_bytes and self.cache_bytes < CACHE_BYTES_MIN:
            why = f"it is 0, or at least {CACHE_BYTES_MIN}"
            raise InvalidValue(name="cache_bytes", value=self.cache_bytes, why=why)
        if not set(self.name) <= _OF_NAMES:
            why = "use lowercase letters, digits and .-_"
            raise InvalidValue(name="name", value=self.name, why=why)


class TopicDefaults(TopicSettings, frozen=True, kw_only=True):
    """Defaults for new topics, and whether missing topics are created."""

    # Publishing to or consuming a topic that does not exist creates it, over every protocol (but PUB and
    # CONSUME of the text and KQueue protocols never do); false: it is the error TOPIC_NOT_FOUND.
    auto_create: bool = True

    @property
    def settings(self) -> TopicSettings:
        return TopicSettings(**{name: getattr(self, name) for name in TopicSettings.__struct_fields__})


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All settings: one field per section."""

    server: ServerSettings = ServerSettings()
    listen: ListenSettings = ListenSettings()
    http: HttpSettings = HttpSettings()
    limits: LimitSettings = LimitSettings()
    security: SecuritySettings = SecuritySettings()
    tls: TlsSettings = TlsSettings()
    lake: LakeSettings = LakeSettings()
    kafka: KafkaSettings = KafkaSettings()
    grpc: GrpcSettings = GrpcSettings()
    cluster: ClusterSettings = ClusterSettings()
    broker: BrokerConfig = BrokerConfig()
    # Defaults for new topics and groups.  Six partitions allow several consumers of either kind out of the
    # box.
    topic: TopicDefaults = TopicDefaults(partitions=6)
    group: GroupSettings = GroupSettings()
