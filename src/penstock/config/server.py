"""Settings of a server.  Those of brokers, topics and groups are in ``penstock.config.broker``.

A section of the file is one class here, a field is one setting, and the
comment above a field is its row in docs/configuration.md.  Where a field ends
in ``_ms``, people leave that away and write a duration: ``stop_timeout = "10s"``.

Everything is checked when a value is made, and trusted after.  How values are
found in a file, in the environment and among the flags is in ``loading.py``.
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
PORT_MAX = 65_535
_OF_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-_")  # Without a port.
LOG_LEVELS = ("debug", "info", "warning", "error")


def address(name: str, text: str) -> tuple[str, int] | None:
    """Host and port of a listener; None if it is off."""
    if text == OFF:
        return None
    host, colon, port = text.rpartition(":")
    if not colon:
        host = LOCALHOST
    if not host or not (port.isascii() and port.isdigit()) or int(port) > PORT_MAX:
        why = "write HOST:PORT such as 127.0.0.1:7070 (0.0.0.0 is every interface), or 'off'"
        raise InvalidValue(name=name, value=text, why=why)
    return host.removeprefix("[").removesuffix("]"), int(port)


def shown(host: str, port: int) -> str:
    """An address as one writes it."""
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

    # Directory of the data, made if it is not there; ":memory:" keeps everything in memory, until the end.
    data: str = "data"
    # How long a stop may take: requests in hand are answered, leases released, all is written down.
    stop_timeout_ms: int = 10_000
    # What is written to stderr: this and what is more important.
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
    """Where connections are accepted: HOST:PORT, a port of 127.0.0.1, or "off"; port 0 takes a free one."""

    # The native protocol, for Penstock's own clients and KQueue's.
    native: str = "127.0.0.1:7070"
    # The text protocol, for netcat.
    text: str = "127.0.0.1:3000"
    # Status over HTTP: GET /metrics.
    status: str = "127.0.0.1:8081"
    # The HTTP API: GET /openapi.json describes it.
    http: str = "127.0.0.1:8080"
    # The Kafka protocol, for Kafka's clients as they are.
    kafka: str = "127.0.0.1:9092"

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            address(name, getattr(self, name))


class LakeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where archived messages are."""

    # A directory or a URI such as "s3://bucket/lake", which a server only tells those who archive and query;
    # "auto" is "lake" in the directory of the data.
    path: str = AUTO

    def __post_init__(self) -> None:
        if not self.path:
            raise InvalidValue(name="path", value=self.path, why="name a directory or a URI, or 'auto'")


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The HTTP API."""

    # Origins whose web pages may use the API (CORS), with commas between, such as "https://app.example.com";
    # "*" is every page there is.
    cors_origins: str = ""
    # Names by which the API may be called while authentication is off, with commas between; beside localhost,
    # every address, and the name that it listens on.
    hosts: str = ""

    def __post_init__(self) -> None:
        for origin in self.origins:
            scheme, _, place = origin.partition("://")
            if origin != "*" and (scheme not in ("http", "https") or not place or "/" in place):
                why = "an origin is SCHEME://HOST or SCHEME://HOST:PORT, without a path"
                raise InvalidValue(name="cors_origins", value=origin, why=why)
        for name in self.names:
            if not set(name) <= _OF_NAMES:
                raise InvalidValue(name="hosts", value=name, why="write names such as broker.example.com")

    @property
    def origins(self) -> list[str]:
        """Each of the origins."""
        return [origin.lower() for origin in _between_commas(self.cors_origins)]

    @property
    def names(self) -> list[str]:
        """Each of the hosts."""
        return [name.lower() for name in _between_commas(self.hosts)]


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What clients may ask of a server."""

    # Connections of all listeners together; one more is told so and closed.
    connections_max: int = 10_000
    # Largest frame of the native and the Kafka protocol; its length is looked at before anything is kept.
    frame_bytes_max: int = 16 * 1024 * 1024
    # Bytes of publishes that wait for the disk, of all connections; beyond it a publish is refused and may be
    # tried again.
    publish_bytes_max: int = 256 * 1024 * 1024
    # Bytes that wait for a client to read them; beyond it the connection is sent nothing more until it reads.
    write_buffer_bytes_max: int = 1024 * 1024
    # Requests of one native connection that may be unanswered; no more is read until some are answered.
    requests_max: int = 4096
    # How long the consumers of a lost native connection are kept; a client that is back in time goes on with
    # them.
    resume_ms: int = 5_000
    # Longest line of the text protocol; a longer one ends the connection.
    text_line_bytes_max: int = 2 * 1024 * 1024
    # Messages that one subscription of the text protocol may hold unanswered.
    text_in_flight_max: int = 100
    # Largest head of a status request, and how long it may take to arrive.
    status_head_bytes_max: int = 8 * 1024
    status_timeout_ms: int = 10_000
    # Largest head of an HTTP request, and largest body of one that is read whole.
    http_head_bytes_max: int = 32 * 1024
    http_body_bytes_max: int = 16 * 1024 * 1024
    # How long the head of an HTTP request may take, and how long nothing of its body may arrive.
    http_timeout_ms: int = 30_000

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            _at_least(name, getattr(self, name), 0 if name == "resume_ms" else 1)


class KafkaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What Kafka's clients are told."""

    # HOST:PORT at which clients reach this server; "auto" is the address that a client has connected to.
    advertised: str = AUTO
    # Accept a replication factor, and min.insync.replicas, above 1; there is one replica all the same.
    accept_replication: bool = False
    # How long the first round of a consumer group waits for more members (group.initial.rebalance.delay.ms).
    initial_rebalance_delay_ms: int = 250

    def __post_init__(self) -> None:
        _at_least("initial_rebalance_delay_ms", self.initial_rebalance_delay_ms, 0)
        if self.advertised != AUTO and not address("advertised", self.advertised):
            raise InvalidValue(name="advertised", value=self.advertised, why="write HOST:PORT, or 'auto'")


class SecuritySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Who may come."""

    # Ask everybody for an API key, or a user's name and password; a start without an admin makes one a key.
    authentication: bool = False
    # Listen on addresses that other machines reach, although authentication is off.
    insecure: bool = False


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Encryption of all listeners: both files, or neither."""

    # File of the certificate, with those between it and its root, in PEM.
    certificate: str = ""
    # File of its private key, in PEM, without a passphrase.
    key: str = ""


class TopicDefaults(TopicSettings, frozen=True, kw_only=True):
    """What new topics are like, and who makes them."""

    # Publishing to a topic that does not exist, or consuming it, creates it, over every protocol;
    # false: that is an error, TOPIC_NOT_FOUND.
    auto_create: bool = True

    @property
    def settings(self) -> TopicSettings:
        """What new topics are like."""
        return TopicSettings(**{name: getattr(self, name) for name in TopicSettings.__struct_fields__})


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All of it: one field for each section."""

    server: ServerSettings = ServerSettings()
    listen: ListenSettings = ListenSettings()
    http: HttpSettings = HttpSettings()
    limits: LimitSettings = LimitSettings()
    security: SecuritySettings = SecuritySettings()
    tls: TlsSettings = TlsSettings()
    lake: LakeSettings = LakeSettings()
    kafka: KafkaSettings = KafkaSettings()
    broker: BrokerConfig = BrokerConfig()
    # What new topics and groups are like, unless whoever makes them says otherwise.  Six partitions: more
    # than one consumer at a time, of either kind, without a thought.
    topic: TopicDefaults = TopicDefaults(partitions=6)
    group: GroupSettings = GroupSettings()
