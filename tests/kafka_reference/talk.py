"""One server's side of the conversations: sends requests made of plain values, and writes down each answer.

    talk.ask("Fetch", 12, "at the end", topics=[{"topic": "orders", ...}])

What may differ between two runs of the same server is replaced by a symbol: ids by what they belong to, or by
the order in which they appeared; times near the start of the run by their distance to it; the port.  Texts of
errors are not compared.  A list of parts is written down by the names of its parts, where they have some, so
that the order of topics or settings does not count.  Names lose their numbers (``orders-7`` is the topic for
version 7), so that what several versions have in common is one difference.
"""

import re
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tests.kafka_reference.batches import summary

from penstock.frontends.kafka.apis import APIS
from penstock.wire.kafka.codec import decode, encode
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.fields import NO_UUID, KafkaMessage, Part
from penstock.wire.kafka.lengths import passed_over
from penstock.wire.kafka.tables import fields_of

ANSWER_S: Final = 6.0
SETTLE_S: Final = 30.0
PAUSE_S: Final = 0.05
CLIENT: Final = b"reference"
BY_NAME: Final = {api.request.__name__.removesuffix("Request"): api for api in APIS.values()}
# Answers of a server that is not ready yet; every client repeats the request.
PASSING: Final = {
    Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR,
    Code.LEADER_NOT_AVAILABLE, Code.CONCURRENT_TRANSACTIONS,
}  # fmt: skip
IGNORED: Final = {"throttle_time_ms", "error_message", "batch_index_error_message"}
# Fields of which only counts that they have a value, and what is written down then.
FIXED: Final = {
    "documentation": "text", "log_dir": "directory", "port": "port", "total_bytes": "bytes",
    "usable_bytes": "bytes", "finalized_features_epoch": "epoch", "log_end_offset": "offset",
}  # fmt: skip
NUMBER: Final = re.compile(r"[-_]\d{1,2}\b")
CHOSEN: Final = "chosen"  # A member's id that the conversation has made up begins so.
LONG: Final = 60
IDS: Final = {
    "topic_id", "cluster_id", "member_id", "leader", "producer_id", "session_id", "replica_directory_id",
}  # fmt: skip
NOT_AN_ID: Final = (None, "", -1, NO_UUID)
TIMES: Final = ("timestamp", "time_ms")
NEAR_MS: Final = 3_600_000
# The fields that name a part of a list, the first that it has.
NAMING: Final = (
    "partition_index", "partition", "partition_id", "index", "name", "topic", "topic_name", "topic_id",
    "resource_name", "group_id", "group", "api_key", "key", "transactional_id", "node_id", "broker_id",
    "replica_id", "user", "log_dir", "member_id",
)  # fmt: skip
CLOSED: Final = {"outcome": "the connection is closed"}
SILENT: Final = {"outcome": "no answer"}


@dataclass(slots=True)
class Step:
    """One request and its answer."""

    api: str
    what: str
    version: int
    answer: Any


@dataclass(slots=True)
class Talk:
    """A conversation with one server; requests on one connection, unless another one is asked for."""

    address: str
    started_ms: int  # The same for both servers.
    steps: list[Step] = field(default_factory=list)
    _symbols: dict[tuple[str, Any], str] = field(default_factory=dict)
    _connections: dict[str, "Connection"] = field(default_factory=dict)

    def ask(self, api: str, version: int, what: str, *, by: str = "", **values: Any) -> Any:
        """Send a request, write down the answer and return it; None if there is none."""
        answer = self.settled(api, version, by=by, **values)
        self.note(api, version, what, answer)
        return answer if isinstance(answer, KafkaMessage) else None

    def begin(self, api: str, version: int, *, by: str, **values: Any) -> None:
        """Only send it; ``finish`` waits for the answer."""
        self._connection(by).send(built(api, version, values), version)

    def finish(self, api: str, version: int, what: str, *, by: str) -> Any:
        answer = self._heard(by)
        self.note(api, version, what, answer)
        return answer if isinstance(answer, KafkaMessage) else None

    def settled(self, api: str, version: int, *, by: str = "", **values: Any) -> Any:
        """The answer to a request, which is repeated while the server says that it is not ready."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            self.begin(api, version, by=by, **values)
            answer = self._heard(by)
            if not (PASSING & set(codes(answer))) or time.monotonic() > deadline:
                return answer
            time.sleep(PAUSE_S)

    def raw(self, what: str, data: bytes) -> None:
        """Bytes as they are, on a connection of their own."""
        connection = Connection(self.address)
        try:
            connection.send_bytes(data)
            heard = connection.frame()
            answer = {"outcome": "an answer"} if heard is not None else SILENT
        except ConnectionError:
            answer = CLOSED
        finally:
            connection.close()
        self.steps.append(Step("frames", what, 0, answer))

    def note(self, api: str, version: int, what: str, answer: Any) -> None:
        found = self._plain(answer, version) if isinstance(answer, KafkaMessage) else answer
        self.steps.append(Step(api, what, version, found))

    def topic(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """Create a topic, and wait until it can be used; its id."""
        settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        wanted = {
            "name": name, "num_partitions": partitions, "replication_factor": 1, "configs": settings
        }  # fmt: skip
        made = self.settled("CreateTopics", 7, topics=[wanted])
        assert not any(codes(made)), made
        return self.known(name, partitions)

    def known(self, name: str, partitions: int = 1) -> bytes:
        """Wait until a topic is known to have so many partitions; its id."""
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            asked = [{"name": name}]
            [found] = self.settled("Metadata", 12, topics=asked, allow_auto_topic_creation=False).topics
            if not any(codes(found)) and len(found.partitions) == partitions:
                made = bytes(found.topic_id)
                self._symbols["topic_id", made] = NUMBER.sub("", name)
                self._led(name, partitions)
                return made
            time.sleep(PAUSE_S)
        raise TimeoutError(name)

    def _led(self, name: str, partitions: int) -> None:
        """Wait until the partitions have their leader."""
        asked = [{"partition_index": number, "timestamp": -1} for number in range(partitions)]
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            if not any(codes(self.settled("ListOffsets", 2, topics=[{"name": name, "partitions": asked}]))):
                return
            time.sleep(PAUSE_S)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def drop(self, by: str = "") -> None:
        """Close a connection; the next request of that name makes a new one."""
        if by in self._connections:
            self._connections.pop(by).close()

    def _connection(self, by: str) -> "Connection":
        if by not in self._connections:
            self._connections[by] = Connection(self.address)
        return self._connections[by]

    def _heard(self, by: str) -> Any:
        try:
            return self._connection(by).hear()
        except ConnectionError:
            self.drop(by)
            return CLOSED
        except TimeoutError:
            self.drop(by)
            return SILENT

    def _plain(self, part: Part, version: int) -> dict[str, Any]:
        found = {}
        for each in fields_of(type(part), version):
            if each.present and each.name not in IGNORED:
                found[each.name] = self._value(each.name, getattr(part, each.name), version)
        return found

    def _value(self, name: str, value: Any, version: int) -> Any:
        if isinstance(value, Part):
            return self._plain(value, version)
        if isinstance(value, list):
            return self._list(name, value, version)
        if name == "records" and value is not None:
            return [self._batch(each) for each in summary(bytes(value))]
        if name in IDS and value not in NOT_AN_ID:
            return self._symbol(name, value)
        return FIXED[name] if name in FIXED and value not in (None, "", -1, 0) else self._simple(name, value)

    def _simple(self, name: str, value: Any) -> Any:
        if isinstance(value, int) and name.endswith(TIMES) and abs(value - self.started_ms) < NEAR_MS:
            return "start" if value == self.started_ms else self._relative(value - self.started_ms)
        if isinstance(value, str):
            return NUMBER.sub("", value) if len(value) < LONG else f"{value[:3]}... ({len(value)})"
        return bytes(value) if isinstance(value, memoryview) else value

    def _relative(self, distance_ms: int) -> str:
        """Times that the conversation has chosen are below a second and exact; others are the server's."""
        return f"start + {distance_ms}" if 0 < distance_ms < 1000 else "now"

    def _list(self, name: str, values: list[Any], version: int) -> Any:
        if not values or not isinstance(values[0], Part):
            return [self._value(name, each, version) for each in values]
        naming = next((each for each in NAMING if each in type(values[0]).__struct_fields__), None)
        present = {each.name: each.present for each in fields_of(type(values[0]), version)}
        if naming in ("name", "topic") and not present[naming]:
            naming = "topic_id"
        found: dict[str, Any] = {}
        for number, each in enumerate(values):
            key = number if naming is None else self._value(naming, getattr(each, naming), version)
            found[f"{key}" if str(key) not in found else f"{key} ({number})"] = self._plain(each, version)
        return found

    def _batch(self, found: dict[str, Any]) -> dict[str, Any]:
        return {name: self._value(name, value, 0) for name, value in found.items()}

    def _symbol(self, name: str, value: Any) -> str:
        kind = "member" if name in ("member_id", "leader") else name
        if kind == "topic_id":
            return self._symbols.get((kind, value), "<a topic's id>")
        if kind in ("cluster_id", "session_id"):
            return f"<{kind}>" if value else value
        if kind == "member" and str(value).startswith((CHOSEN, "stranger")):
            return str(value)
        number = sum(each == kind for each, _ in self._symbols) + 1
        return self._symbols.setdefault((kind, value), f"<{kind} {number}>")


class Connection:
    """Requests and answers as frames."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sent: list[tuple[type[KafkaMessage], int]] = []

    def send(self, request: KafkaMessage, version: int) -> None:
        head = struct.pack(">hhih", request.KEY, version, len(self._sent), len(CLIENT)) + CLIENT
        tagged = b"\0" * (version >= request.FLEXIBLE)
        frame = head + tagged + b"".join(encode(request, version))
        self._sent.append((type(request), version))
        try:
            self.send_bytes(struct.pack(">i", len(frame)) + frame)
        except OSError as error:
            raise ConnectionError from error

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def hear(self) -> KafkaMessage:
        """The next answer; it must end where its frame does."""
        request, version = self._sent.pop(0)
        frame = self.frame()
        if frame is None:
            raise TimeoutError
        api = APIS[request.KEY]
        tagged = version >= request.FLEXIBLE and BY_NAME["ApiVersions"].key != request.KEY
        at = passed_over(frame, 4) if tagged else 4
        return decode(api.response, version, frame, at)

    def frame(self) -> memoryview | None:
        """The bytes of the next answer; None if there is none in time."""
        try:
            (size,) = struct.unpack(">i", self._read(4))
            return memoryview(self._read(size))
        except TimeoutError:
            return None

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                more = self._socket.recv(size - len(data))
            except TimeoutError:
                raise
            except OSError as error:
                raise ConnectionError from error
            if not more:
                raise ConnectionError
            data += more
        return data

    def close(self) -> None:
        self._socket.close()


def versions(api: str) -> range:
    """All that Penstock offers."""
    first, last = BY_NAME[api].offered
    return range(first, last + 1)


def built(api: str, version: int, values: dict[str, Any]) -> KafkaMessage:
    """A request of plain values; what the version does not have is left out when it is written."""
    message = _part(BY_NAME[api].request, version, values)
    assert isinstance(message, KafkaMessage)
    return message


def _part(kind: type[Part], version: int, values: dict[str, Any]) -> Part:
    kinds = {each.name: each for each in fields_of(kind, version)}
    given = {}
    for name, value in values.items():
        each = kinds[name]  # A KeyError is a mistake in a conversation.
        if isinstance(each.kind, type) and value is not None:
            given[name] = (
                [_part(each.kind, version, item) for item in value]
                if each.is_list
                else _part(each.kind, version, value)
            )
        else:
            given[name] = value
    return kind(**given)


def codes(answer: Any) -> Iterator[int]:
    """All error codes in an answer."""
    if isinstance(answer, list):
        for each in answer:
            yield from codes(each)
    elif isinstance(answer, Part):
        for name in answer.__struct_fields__:
            value = getattr(answer, name)
            if name == "error_code":
                yield value
            else:
                yield from codes(value)
