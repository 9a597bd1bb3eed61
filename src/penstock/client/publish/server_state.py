"""What a publisher knows of its servers: topic settings, producer ids, limits and owners."""

from random import Random
from typing import Any, Final

from penstock.client.routing import OwnerRouting, Target
from penstock.clock import Clock
from penstock.config.broker import TopicSettings
from penstock.types import missing_topic
from penstock.wire.native import METADATA, NEW_PRODUCER, decode_producer, frame
from penstock.wire.native_bodies import Metadata, decode_body, encode_body

REQUEST_BYTES: Final = 1 << 20  # Of one request: enough that its round trip costs little.


class ServerState:
    """Requested from one server, and shared by all senders to it."""

    def __init__(self, routing: OwnerRouting, clock: Clock, random: Random) -> None:
        self.routing = routing
        self.session = session = routing.home
        self.clock = clock
        self.random = random
        assert session.welcome is not None, "it is connected"
        # How much may share a request; what is around it has its own share of a frame.
        self.request_bytes = min(REQUEST_BYTES, session.welcome.frame_bytes_max * 3 // 4)
        self.unasked = 0  # How many requests were sent that are not answered,
        self.unasked_taken = 0  # and how many of them the server has: something behind them was answered.
        self._producer_id = -1  # The one that all senders begin with.

    def target(self, topic: str, partition: int, version: int) -> Target | None:
        """Where a publish goes; None: home, also while home has earlier publishes in flight."""
        if self.unasked > self.unasked_taken:
            return None
        return self.routing.target(topic, partition, version)

    async def metadata(self, topic: Any) -> Metadata:
        if not isinstance(topic, str):
            raise missing_topic(topic)
        body = await self.session.call(
            "publish", lambda correlation: encode_body(METADATA, correlation, topic), changes=False
        )
        return decode_body(body, Metadata)

    async def new_producer_id(self) -> int:
        """A new producer id."""
        body = await self.session.call(
            "publish", lambda correlation: frame(NEW_PRODUCER, correlation), changes=False
        )
        return decode_producer(body)

    async def first_producer_id(self) -> int:
        """The id that senders begin with: one for all topics."""
        if self._producer_id < 0:
            producer_id = await self.new_producer_id()
            if self._producer_id < 0:  # Else another sender has asked too, and was quicker.
                self._producer_id = producer_id
        return self._producer_id

    def give_up(self, producer_id: int) -> None:
        """Nobody may begin with this id any more."""
        if self._producer_id == producer_id:
            self._producer_id = -1


def depth_wait_ms(settings: TopicSettings) -> int:
    """How long the server may hold a publish back until there is room."""
    return settings.depth_wait_ms if settings.depth_max is not None and settings.depth_policy == "wait" else 0
