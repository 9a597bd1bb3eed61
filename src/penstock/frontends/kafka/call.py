"""One request as its handler sees it, and one line of the table of APIs.

A handler gets a ``KafkaCall`` and gives the answer in one of three ways:

    return response                    it is known at once
    async def ... return response      it has to wait; the connection owns the task
    return LATER, and call.answer(..)  it has begun something that calls back: no task, for what comes often

All that is framing has happened before or happens after: versions, the login, the order of answers, errors.
Handlers call the broker through ``call.operations``, which checks what the client may do.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from penstock.api.work import Work
from penstock.frontends.kafka.session import KafkaSession, KafkaShared
from penstock.frontends.security.guarded import BrokerOperations
from penstock.model.owners import Owners
from penstock.wire.kafka.fields import KafkaMessage

T = TypeVar("T")
AskedT = TypeVar("AskedT")
TopicT = TypeVar("TopicT")
RequestT_co = TypeVar("RequestT_co", bound=KafkaMessage, covariant=True)


class Later:
    """Returned by handlers that will respond later, by ``call.answer``."""


LATER: Final = Later()


class CallConnection(Protocol):
    """The part of the connection that a call uses."""

    apis: Mapping[int, "Api"]

    def answered(self, call: "KafkaCall[Any]", response: KafkaMessage | None) -> None: ...
    def refused(self, call: "KafkaCall[Any]", error: BaseException) -> None: ...


class KafkaCall(Generic[RequestT_co]):
    __slots__ = (
        "_connection", "api", "client_id", "correlation", "hurry", "parts", "request", "session", "version",
    )  # fmt: skip

    def __init__(
        self,
        api: "Api",
        version: int,
        correlation: int,
        client_id: str | None,
        request: Any,
        session: KafkaSession,
        connection: CallConnection,
    ) -> None:
        self.api = api
        self.version = version
        self.correlation = correlation
        self.client_id = client_id
        self.request: RequestT_co = request
        self.session = session
        self.hurry: Callable[[], object] | None = None  # Called if another request waits for this answer.
        self.parts: list[Any] | None = None  # The answer's bytes, once it is there: none at all, or a frame.
        self._connection = connection

    @property
    def operations(self) -> BrokerOperations:
        """The broker's operations that the client may call."""
        return self.session.operations

    @property
    def owners(self) -> Owners:
        return self.session.shared.gateway.owners

    @property
    def accepts_replication(self) -> bool:
        """Whether a replication factor above one is accepted: in a cluster the store has the copies."""
        return self.shared.settings.accept_replication or bool(self.owners.nodes())

    @property
    def apis(self) -> Mapping[int, "Api"]:
        return self._connection.apis

    @property
    def shared(self) -> KafkaShared:
        """What all connections of the listener share."""
        return self.session.shared

    def answer(self, response: KafkaMessage | None) -> None:
        """Send the response once all earlier requests are answered; None for a request without one."""
        self._connection.answered(self, response)

    def refuse(self, error: BaseException) -> None:
        """Respond with an error of the whole request."""
        self._connection.refused(self, error)

    async def run(self, work: Work[T]) -> T:
        """Run one of the operations to its end."""
        return await self.session.shared.broker.run(work)

    def start(self, work: Work[Any], then: Callable[[Any, BaseException | None], None]) -> Any:
        """Begin an operation; ``then(result, error)`` is called once when it ends, at once if it can."""
        return self.session.shared.broker.start(work, then)


def by_partition(
    topics: Iterable[tuple[str, Iterable[AskedT]]],
    topic: Callable[[str, list[T]], TopicT],
    partition: Callable[[str, AskedT], T],
) -> list[TopicT]:
    """The results of a request about topics, each with the results of its partitions."""
    return [topic(name, [partition(name, asked) for asked in partitions]) for name, partitions in topics]


Answer = KafkaMessage | Later
Handler = Callable[[KafkaCall[Any]], "Answer | Awaitable[KafkaMessage]"]
Refusal = Callable[[Any, int], KafkaMessage]


class Api:
    """One of Kafka's APIs: its messages, its handler and the versions that are offered."""

    def __init__(
        self,
        request: type[KafkaMessage],
        response: type[KafkaMessage],
        handler: Handler,
        *,
        refusal: Refusal | None = None,
        pipelined: bool = False,
        unauthenticated: bool = False,
        waits: bool = False,
        versions: tuple[int, int] | None = None,
    ) -> None:
        self.request = request
        self.response = response
        self.handler = handler
        self.refusal = refusal  # Makes an answer of a request and an error's code, if no field says it all.
        self.pipelined = pipelined  # May begin while others of its kind are not answered yet.
        self.unauthenticated = unauthenticated  # Served before a login, where one is asked for.
        self.waits = (
            waits  # For other clients, perhaps for minutes: a server that ends does not wait with it.
        )
        # The first and the last version; fewer are offered than the messages could be read in if it says so.
        self.offered = versions or request.VERSIONS
        self.key = request.KEY
        self.flexible = request.FLEXIBLE  # From this version on.

    def refused(self, request: KafkaMessage, code: int) -> KafkaMessage | None:
        """The response to a request that has failed as a whole; None if it has none."""
        if self.refusal is not None:
            return self.refusal(request, code)
        if "error_code" in self.response.__struct_fields__:
            make = cast("Callable[..., KafkaMessage]", self.response)
            return make(error_code=code)
        return None
