"""One request of an SQS client, and the state that all requests of a listener share.

A handler gets an ``SqsCall`` and the decoded request, and returns an answer.  It calls the broker through
``call.operations``, which enforces the permissions of the caller.
"""

from collections import OrderedDict
from collections.abc import Iterable
from sys import getsizeof
from typing import Any, Final, TypeVar

from penstock.api.work import Work
from penstock.broker.frontend import EmbeddedAsyncBroker
from penstock.clock import Clock
from penstock.config.server import LimitSettings
from penstock.errors import PenstockError
from penstock.frontends.http.consumers.long_polls import Disconnection, LongPoll
from penstock.frontends.origins import Origins
from penstock.frontends.security.gateway import AuthGateway
from penstock.frontends.security.guarded import BrokerOperations
from penstock.frontends.security.identity import NOBODY, Identity
from penstock.frontends.sqs.attributes import QueueState, is_queue, state_of
from penstock.frontends.sqs.consumers import SqsConsumers
from penstock.frontends.sqs.errors import no_queue
from penstock.frontends.sqs.names import ACCOUNT, REGION, arn_of, name_of_url, region_of
from penstock.frontends.sqs.tasks import MoveTasks
from penstock.wire.sqs.answers import IncomingMessage, ReceivedMessages
from penstock.wire.sqs.signatures import read_authorization

QUEUES_MAX: Final = 10_000  # Whose attributes are remembered as they were read last.
ATTEMPTS_MAX: Final = 1000  # Receives that may be repeated by their attempt id ...
ATTEMPT_BYTES_MAX: Final = 64 * 1024 * 1024  # ... with as much content, all together ...
ATTEMPT_MS_MAX: Final = 5 * 60 * 1000  # ... for so long, as the service has it.
FIRSTS_MAX: Final = 100_000  # Messages whose first receive is remembered.

T = TypeVar("T")


class ReceiveAttempts:
    """Answers of receives that may be repeated, by queue and attempt id, the oldest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], tuple[int, int, ReceivedMessages]] = OrderedDict()
        self._bytes = 0

    def get(self, queue: str, attempt_id: str) -> ReceivedMessages | None:
        self._trim()
        found = self._kept.get((queue, attempt_id))
        return None if found is None else found[2]

    def add(self, queue: str, attempt_id: str, answer: ReceivedMessages) -> None:
        self.discard(queue, attempt_id)
        size = sum(map(_bytes_of, answer.messages))
        self._kept[queue, attempt_id] = self._clock.steady_ms(), size, answer
        self._bytes += size
        self._trim()

    def discard(self, queue: str, attempt_id: str) -> None:
        _, size, _ = self._kept.pop((queue, attempt_id), (0, 0, None))
        self._bytes -= size

    def _trim(self) -> None:
        since_ms = self._clock.steady_ms() - ATTEMPT_MS_MAX
        while self._kept:
            oldest = next(iter(self._kept))
            few = len(self._kept) <= ATTEMPTS_MAX and self._bytes <= ATTEMPT_BYTES_MAX
            if few and self._kept[oldest][0] > since_ms:
                return
            self.discard(*oldest)


def _bytes_of(message: IncomingMessage) -> int:
    """The approximate memory of the content of a message."""
    values = message.message_attributes.values()
    return getsizeof(message.body) + sum(
        getsizeof(each.string_value) + getsizeof(each.binary_value) for each in values
    )


class SqsShared:
    """The state that all requests of a listener share."""

    def __init__(
        self,
        broker: EmbeddedAsyncBroker,
        gateway: AuthGateway,
        limits: LimitSettings,
        origins: Origins,
        clock: Clock,
    ) -> None:
        self.broker = broker
        self.gateway = gateway
        self.limits = limits
        self.origins = origins
        self.clock = clock
        self.draining = False  # The server is shutting down.
        self.consumers = SqsConsumers(broker)
        self.moves = MoveTasks()
        gateway.ended += [self.consumers.forget, self.moves.forget]
        self.signing_keys: dict[tuple[str, str, str], bytes] = {}  # By key id, date and region.
        self.states: dict[str, tuple[Any, QueueState]] = {}  # By topic: its settings and what they say.
        self.attempts = ReceiveAttempts(self.clock)
        self.firsts: OrderedDict[tuple[str, int, int], int] = (
            OrderedDict()
        )  # The first receive, by partition and offset.

    def state(self, operations: BrokerOperations, name: str) -> QueueState:
        """A queue; an error if there is no topic of that name, or if it is not a queue."""
        layout = operations.layout(name)
        known = self.states.get(name)
        if known is not None and known[0] is layout.settings:
            return known[1]
        attributes = layout.settings.sqs_attributes
        if not is_queue(name, attributes):
            raise no_queue()
        made = state_of(name, layout.id, attributes)
        if len(self.states) >= QUEUES_MAX:
            self.states.clear()
        self.states[name] = layout.settings, made
        return made

    def first_received(self, place: tuple[str, int, int], attempt: int) -> int:
        """The approximate time of a message's first receive."""
        now_ms = self.clock.wall_ms()
        if attempt > 1:
            return self.firsts.get(place, now_ms)
        self.firsts[place] = now_ms
        if len(self.firsts) > FIRSTS_MAX:
            self.firsts.popitem(last=False)
        return now_ms


class SqsCall:
    """One request of an SQS client, and the operations its key may use."""

    __slots__ = ("authorization", "identity", "lost", "operations", "path", "shared", "trace", "url")

    def __init__(
        self,
        shared: SqsShared,
        path: str,
        url: str,
        authorization: str,
        lost: Disconnection,
        trace: str | None = None,
    ) -> None:
        self.shared = shared
        self.path = path
        self.url = url  # The address of this server, as the client knows it.
        self.lost = lost
        self.authorization = authorization  # The header, whether it is checked or not.
        self.trace = trace  # The tracing header of AWS X-Ray, for messages that have none of their own.
        self.identity: Identity = NOBODY
        self.operations: BrokerOperations

    def queue(self, url: str | None) -> QueueState:
        """The queue that a request is about."""
        return self.shared.state(self.operations, name_of_url(url, self.path))

    @property
    def region(self) -> str:
        """The region that the client signed for."""
        shown = read_authorization(self.authorization)
        return REGION if shown is None else region_of(shown.region)

    def queue_url(self, name: str) -> str:
        return f"{self.url}/{ACCOUNT}/{name}"

    def arn(self, name: str) -> str:
        return arn_of(self.region, name)

    def long_poll(self) -> LongPoll:
        return LongPoll(self.shared.gateway, self.identity, self.lost)

    async def run(self, work: Work[T]) -> T:
        """Run one of the operations to its end."""
        return await self.shared.broker.run(work)

    async def run_all(self, works: Iterable[Work[T]]) -> list[T | PenstockError]:
        """Run operations concurrently, begun in order, so that one sync serves all."""
        return await self.shared.broker.run_all(works)
