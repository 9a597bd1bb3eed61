"""Messages pushed to a client as server-sent events.

    id: orders:0:7
    event: message
    data: {"id": "orders:0:7", "receipt": "...", ...}

A stream has its own consumer with at most ``max_in_flight`` unsettled messages; the client settles them by
their receipts in other requests.  When the connection is closed, unsettled messages are released at once; the
attempt counts unless the server ended the stream.  After ``QUIET_MS`` without a message a comment is sent, so
that proxies do not close the connection.
"""

from collections.abc import AsyncGenerator
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from penstock.errors import PenstockError, ShuttingDown
from penstock.frontends.http.call import HttpCall
from penstock.frontends.http.consumers.long_polls import LongPoll
from penstock.frontends.http.consumers.registry import HttpConsumer
from penstock.frontends.http.handlers.messages.consuming import MESSAGES_MAX, LeasedMessage, leased_messages
from penstock.frontends.http.messages import As, encode
from penstock.frontends.http.problems import problem
from penstock.types import duration_ms

QUIET_MS: Final = 15_000
QUIET: Final = b":\n\n"


class Stream(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"way": "as"}):
    """Maximum number of unsettled messages, and their visibility timeout."""

    max_in_flight: Annotated[int, Meta(ge=1, le=MESSAGES_MAX)] = 100
    visibility: str | None = None
    way: As = "base64"


async def stream(call: HttpCall) -> AsyncGenerator[bytes, None]:
    """Push messages as server-sent events until the client disconnects."""
    wanted: Stream = call.query
    if call.shared.draining:
        raise ShuttingDown(what="server")
    long_poll = call.long_poll().enter()
    try:
        consumer = await open_consumer(call, wanted)
    except BaseException:
        long_poll.leave()
        raise
    return _events(call, consumer, long_poll, wanted)


async def open_consumer(call: HttpCall, wanted: Stream) -> HttpConsumer:
    """A consumer for this client only."""
    visibility_ms = None if wanted.visibility is None else duration_ms("visibility", wanted.visibility)
    return await call.shared.consumers.open(
        call.operations, call.topic, call.group, visibility_ms, wanted.max_in_flight
    )


async def _events(
    call: HttpCall, consumer: HttpConsumer, long_poll: LongPoll, wanted: Stream
) -> AsyncGenerator[bytes, None]:
    consumers = call.shared.consumers
    error: PenstockError | None = None
    try:
        yield QUIET  # The client knows that it is heard.
        while not long_poll.over and not call.shared.draining:
            batches = await consumers.receive(consumer, wanted.max_in_flight, QUIET_MS, call.lost)
            yield b"".join(map(_event, leased_messages(call, consumer.number, batches, wanted.way))) or QUIET
    except PenstockError as closed:  # With its group, or its topic.
        error = closed
    finally:
        long_poll.leave()
        ended_here = call.shared.draining or long_poll.error is not None
        consumers.end(consumer, disconnected=not ended_here)
    error = long_poll.error or error
    if error is not None:
        yield b"event: problem\ndata: " + encode(problem(error)) + b"\n\n"


def _event(message: LeasedMessage) -> bytes:
    return b"id: %s\nevent: message\ndata: %s\n\n" % (message.id.encode(), encode(message))
