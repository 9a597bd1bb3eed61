"""The broker at the end of the HTTP API, with the names of every other one.

    Broker (the facade) ──> HttpOperations ──> http.client ──> the real listener, in virtual time

An operation is a request, and its answer is read back into what the facade
returns.  Nothing is added: a refusal is the error of its code, and what the API
does not have (producers, stream groups, staged batches) is not here.
"""

import base64
import http.client
import inspect
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from tests.client.served import VirtualServer
from tests.contract.one_step import at_once, result_of

from penstock import errors
from penstock.api.broker import Broker
from penstock.api.operations import Wrap
from penstock.api.work import Work
from penstock.errors import Closed, PenstockError, TopicNotFound
from penstock.frontends.http.server import HttpListener
from penstock.frontends.listener import Connections
from penstock.model.info import (
    BrokerInfo,
    DeadLetter,
    DeadLetterErrors,
    GroupInfo,
    OpenTransaction,
    Redrive,
    ScheduledMessage,
    TopicInfo,
)
from penstock.model.message import Delivery, Message, Receipt, StoredMessage
from penstock.model.trace import Trace, TraceEvent
from penstock.operations.codec import plain
from penstock.types import LANES
from penstock.wire.records import LANE_MASK, LANE_SHIFT, Record

T = TypeVar("T")

WAIT_S_MAX = 60  # Of one request; who waits longer asks again.
CODES = {
    kind.code: kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, PenstockError)
}
Document = dict[str, Any]


class HttpServer(VirtualServer):
    """The server in virtual time, with its HTTP listener."""

    async def start(self) -> None:
        """Listen there, too."""
        await super().start()
        self._http = HttpListener(self.broker, self._limits, Connections(self._limits.connections_max))
        self._http_server = await self._loop.create_server(self._http.connect, "127.0.0.1", 0)
        self.http_port = self._http_server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Nor any more."""
        self._http_server.close()
        self._http.abort()
        await super().stop()


def connect_over_http(server: HttpServer) -> Broker:
    """A broker whose every call is a request."""
    asking = Asking(server.http_port)
    return Broker(HttpOperations(asking), asking)  # type: ignore[arg-type]


class Asking:
    """A connection; and the facade's driver, since a request is answered before it returns."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self.closed = False
        self.transactions: dict[tuple[Any, ...], str] = {}  # Their names in paths.
        self.receipts: dict[tuple[Any, ...], str] = {}  # Of all messages, for transactions.

    def run(self, work: Work[T]) -> T:
        """Work that waits for nothing."""
        if self.closed:
            raise Closed(what="broker")
        return result_of(work)

    def close(self, timeout_ms: int | None) -> None:
        """Hang up."""
        self.closed = True
        self._connection.close()

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """One request; the document of its answer."""
        given = {name: value for name, value in query.items() if value is not None}
        target = f"{path}?{urlencode(given)}" if given else path
        data = None if body is None else msgspec.json.encode(plain(body))
        self._connection.request(method, target, data, {"content-type": "application/json"} if data else {})
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 400:
            raise error_of(msgspec.json.decode(text))
        return msgspec.json.decode(text) if text else None

    def status(self, method: str, path: str) -> int:
        """One request; the status of its answer."""
        self._connection.request(method, path)
        answer = self._connection.getresponse()
        answer.read()
        return answer.status


def error_of(problem: Document) -> PenstockError:
    """The error that a problem tells of, in its own words."""
    kind = CODES[problem["code"]]
    error = type(kind.__name__, (kind,), {"__init__": PenstockError.__init__, "sentence": "{detail}"})
    made: PenstockError = error(detail=problem["detail"])
    return made


def at(*names: str) -> str:
    """A path of names."""
    return "/v1/" + "/".join(quote(name, safe="") for name in names)


class HttpOperations:
    """What the API has, by the names of the broker's operations."""

    def __init__(self, asking: Asking) -> None:
        self._ask = asking.ask
        self._asking = asking

    # Topics.

    @at_once
    def create_topic(self, name: str, options: Any) -> None:
        self._ask("POST", at("topics"), {"name": name, "options": options})

    @at_once
    def alter_topic(self, name: str, options: Any) -> None:
        self._ask("PATCH", at("topics", name), dict(options))

    @at_once
    def delete_topic(self, name: str) -> None:
        self._ask("DELETE", at("topics", name))

    @at_once
    def topics(self) -> list[str]:
        return list(self._ask("GET", at("topics"))["topics"])

    @at_once
    def queues(self) -> list[str]:
        """There is no route for it: a queue is a topic with the group ``default``."""
        names: list[str] = self._ask("GET", "/v1/topics")["topics"]
        return [name for name in names if "default" in self._ask("GET", at("topics", name))["groups"]]

    @at_once
    def topic_exists(self, topic: str) -> bool:
        return self._asking.status("HEAD", at("topics", topic)) == 204

    @at_once
    def describe_topic(self, name: str) -> TopicInfo:
        return msgspec.convert(self._ask("GET", at("topics", name)), TopicInfo)

    # Publishing.

    @at_once
    def publish(self, topic: str, message: Message) -> Receipt:
        return receipt_of(topic, self._ask("POST", at("topics", topic, "publish"), written(message)))

    @at_once
    def publish_batch(self, topic: str, messages: Iterable[Message | bytes]) -> list[Receipt]:
        body = {"messages": [written(each) for each in messages]}
        answer = self._ask("POST", at("topics", topic, "publish", "batch"), body)
        for result in answer["results"]:
            if not result["ok"]:
                raise error_of(result["problem"])
        return [receipt_of(topic, result) for result in answer["results"]]

    # Transactions.

    @at_once
    def begin_transaction(self, transactional_id: str | None, abort_after: Any) -> OpenTransaction:
        told = self._ask("POST", at("transactions"), {"id": transactional_id, "timeout": abort_after})
        producer_id, epoch, _ = told["transaction"].split(".")
        self._asking.transactions[told["id"], int(producer_id), int(epoch)] = told["transaction"]
        return OpenTransaction(transactional_id=told["id"], producer_id=int(producer_id), epoch=int(epoch))

    @at_once
    def publish_in_transaction(self, topic: str, messages: list[Message], *which: Any) -> list[Receipt]:
        path = at("transactions", self._asking.transactions[which], "topics", topic, "publish")
        answer = self._ask("POST", path, {"messages": [written(each) for each in messages]})
        return [receipt_of(topic, result) for result in answer["results"]]

    @at_once
    def ack_in_transaction(self, topic: str, group: str, runs: list[Any], *which: Any) -> None:
        places = [(number, lease, at) for number, lease, start, end in runs for at in range(start, end)]
        receipts = [self._asking.receipts[topic, group, *place] for place in places]
        name = self._asking.transactions[which]
        path = at("transactions", name, "topics", topic, "groups", group, "ack")
        assert self._ask("POST", path, {"receipts": receipts}) == {"acknowledged": len(receipts)}

    @at_once
    def commit_transaction(self, *which: Any) -> None:
        answer = self._ask("POST", at("transactions", self._asking.transactions[which], "commit"))
        assert answer == {"state": "committed"}

    @at_once
    def abort_transaction(self, *which: Any) -> None:
        answer = self._ask("POST", at("transactions", self._asking.transactions[which], "abort"))
        assert answer == {"state": "aborted"}

    # Groups.

    @at_once
    def consumer(
        self, topic: str, group: str, consumer_id: Any, max_in_flight: Any, options: Any, wrap: Wrap
    ) -> "HttpConsumer":
        assert max_in_flight is None
        with suppress(TopicNotFound):  # A receive creates topic and group.
            self._ask("PUT", at("topics", topic, "groups", group), dict(options))
        return HttpConsumer(self._asking, topic, group, wrap)

    @at_once
    def create_group(self, topic: str, group: str, options: Any) -> None:
        self._ask("PUT", at("topics", topic, "groups", group), dict(options))

    @at_once
    def delete_group(self, topic: str, group: str) -> None:
        self._ask("DELETE", at("topics", topic, "groups", group))

    @at_once
    def describe_group(self, topic: str, group: str) -> GroupInfo:
        return msgspec.convert(self._ask("GET", at("topics", topic, "groups", group)), GroupInfo)

    @at_once
    def seek(self, topic: str, group: str, to: Any, partition: int | None) -> None:
        self._ask("POST", at("topics", topic, "groups", group, "seek"), {"to": to, "partition": partition})

    # Looking.

    @at_once
    def read(
        self, topic: str, partition: Any, offset: Any, from_time: Any, to_time: Any, limit: int
    ) -> list[StoredMessage]:
        query = {"partition": partition, "offset": offset, "limit": min(limit, 10_000)}
        times = {"from_time": plain(from_time), "to_time": plain(to_time)}
        return list(
            map(stored, self._ask("GET", at("topics", topic, "messages"), **query, **times)["messages"])
        )

    @at_once
    def peek(self, topic: str, count: int, partition: int | None) -> list[StoredMessage]:
        answer = self._ask("GET", at("topics", topic, "messages"), last=count, partition=partition)
        return list(map(stored, answer["messages"]))

    @at_once
    def trace(self, topic: str, partition: int | None, offset: int | None) -> Trace:
        identity = topic if partition is None else f"{topic}:{partition}:{offset}"
        told = self._ask("GET", at("trace", identity))
        return Trace(
            topic=told["topic"],
            partition=told["partition"],
            offset=-1 if told["offset"] is None else told["offset"],
            key=None if told["key"] is None else told["key"].encode(),
            events=msgspec.convert(told["events"], list[TraceEvent]),
            schedule=int(told["id"].rpartition(":s")[2]) if told["offset"] is None else -1,
        )

    # The schedule.

    @at_once
    def schedule(self, topic: str, message: Message, cron: str, timezone: str) -> str:
        body = {**written(message), "cron": cron, "timezone": timezone}
        return str(self._ask("POST", at("topics", topic, "schedules"), body)["id"])

    @at_once
    def scheduled(self, topic: str, limit: int) -> list[ScheduledMessage]:
        found = self._ask("GET", at("topics", topic, "schedules"), limit=limit)["schedules"]
        for each in found:
            each["key"] = None if each["key"] is None else base64.b64encode(each["key"].encode()).decode()
        return msgspec.convert(found, list[ScheduledMessage])

    @at_once
    def scheduled_count(self, topic: str) -> int:
        return int(self._ask("GET", at("topics", topic))["scheduled"])

    @at_once
    def cancel(self, schedule_id: str) -> str:
        return str(self._ask("DELETE", at("schedules", schedule_id))["outcome"])

    @at_once
    def reschedule(self, schedule_id: str, delay: Any, deliver_at: Any) -> bool:
        body = {"delay": delay, "deliver_at": deliver_at}
        return bool(self._ask("PATCH", at("schedules", schedule_id), body)["rescheduled"])

    # Dead letters.

    @at_once
    def dead_letters(self, topic: str, limit: int) -> list[DeadLetter]:
        found = self._ask("GET", at("topics", topic, "dead-letters"), limit=limit)["dead_letters"]
        return [self._same_alone(topic, each) for each in found]

    def _same_alone(self, topic: str, told: Document) -> DeadLetter:
        """A dead letter, which is the same if it is asked for by its id."""
        assert self._ask("GET", at("topics", topic, "dead-letters", told["message"]["id"])) == told
        return DeadLetter(**{**told, "message": stored(told["message"])})

    @at_once
    def dead_letter_errors(self, topic: str | None) -> list[DeadLetterErrors]:
        found = self._ask("GET", at("dead-letters"), topic=topic)["errors"]
        return msgspec.convert(found, list[DeadLetterErrors])

    @at_once
    def redrive(
        self, topic: str, limit: int, rate: Any, dry_run: bool, error: str | None, group: str | None
    ) -> Redrive:
        body = {"limit": limit, "rate": rate, "dry_run": dry_run, "error": error, "group": group}
        return msgspec.convert(
            self._ask("POST", at("topics", topic, "dead-letters", "redrive"), body), Redrive
        )

    # The broker itself.

    @at_once
    def stats(self) -> BrokerInfo:
        return msgspec.convert(self._ask("GET", at("stats")), BrokerInfo)


class HttpConsumer:
    """Receives by requests, and answers by receipts."""

    identity = "http"
    assignment: tuple[int, ...] = ()

    def __init__(self, asking: Asking, topic: str, group: str, wrap: Wrap) -> None:
        self.settler: Any = None
        self.closed = False
        self._asking = asking
        self._topic = topic
        self._group = group
        self._wrap = wrap
        self._receipts: dict[tuple[int, int, int], str] = {}  # By partition, offset and attempt.

    @at_once
    def receive(self, max_messages: int, wait_ms: int) -> list[Any]:
        if self.closed:
            raise Closed(what="consumer")
        left_s = wait_ms / 1000
        while True:
            wait_s = min(left_s, WAIT_S_MAX)
            told = self._post("receive", max_messages=max_messages, wait=wait_s)["messages"]
            left_s -= wait_s
            if told or left_s <= 0:
                return [self._message(each) for each in told]

    def _message(self, told: Document) -> Any:
        record = record_of(told)
        # The attempt stands for the lease, which the API does not tell.
        lent = (
            told["topic"],
            told["partition"],
            self._group,
            told["attempt"],
            record.offset,
            record.offset + 1,
        )
        [message] = self._wrap(Delivery(*lent, told["attempt"], self.settler), [record])
        self._receipts[message.partition, message.offset, message.attempt] = told["receipt"]
        place = (self._topic, self._group, message.partition, message.attempt, message.offset)
        self._asking.receipts[place] = told["receipt"]
        return message

    def _receipt(self, message: Any) -> str:
        return self._receipts[message.partition, message.offset, message.attempt]

    @at_once
    def ack(self, messages: list[Any], outputs: list[tuple[str, Message]]) -> None:
        assert not outputs
        if len(messages) == 1:
            self._post("ack", receipt=self._receipt(messages[0]))
        else:
            answer = self._post("ack", receipts=[self._receipt(message) for message in messages])
            for result in answer["results"]:
                if not result["ok"]:
                    raise error_of(result["problem"])
        for message in messages:
            message.mark_settled()

    @at_once
    def nack(self, message: Any, delay: Any, error: BaseException | str | None) -> None:
        words = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
        self._post("nack", receipt=self._receipt(message), delay=delay, error=words)
        message.mark_settled()

    @at_once
    def reject(self, message: Any, reason: str) -> None:
        self._post("reject", receipt=self._receipt(message), reason=reason)
        message.mark_settled()

    @at_once
    def extend(self, message: Any, duration: Any) -> None:
        self._post("extend", receipt=self._receipt(message), duration=duration)

    @at_once
    def answered(self, runs: list[Any]) -> None:
        """The server has settled them."""

    @at_once
    def close(self) -> None:
        self.closed = True

    def _post(self, verb: str, **body: Any) -> Any:
        return self._asking.ask("POST", at("topics", self._topic, "groups", self._group, verb), body)


# Messages there and back.


def written(message: Message | bytes) -> Document:
    """A message as a request has it."""
    if isinstance(message, bytes):
        message = Message(message)
    told = {name: plain(getattr(message, name)) for name in ("priority", "ttl", "delay", "deliver_at")}
    told |= {name: getattr(message, name) for name in ("dedup_id", "partition", "headers")}
    key = message.key
    told["key"] = key.decode() if isinstance(key, bytes) else key
    return told | {"value": message.value}


def receipt_of(topic: str, told: Document) -> Receipt:
    offset, schedule_id = told.get("offset"), told.get("schedule_id")
    return Receipt(
        topic, told["partition"], offset, told["timestamp"], schedule_id, told.get("duplicate", False)
    )


def record_of(told: Document) -> Record:
    return Record(
        told["offset"],
        told["timestamp"],
        None if told["key"] is None else told["key"].encode(),
        None if told["value"] is None else base64.b64decode(told["value"]),
        [(name, value.encode()) for name, value in told["headers"].items()],
        LANES[told["priority"]] << LANE_SHIFT & LANE_MASK,
    )


def stored(told: Document) -> StoredMessage:
    return StoredMessage(told["topic"], told["partition"], record_of(told))
