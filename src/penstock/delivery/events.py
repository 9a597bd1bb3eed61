"""Delivery decisions as events, which the journal stores and replays.

Every event is about one group and a range of offsets of one partition; its
time is the timestamp of the journal record that carries it.  Replaying the
events in order through the same engine gives the same state, so recovery and
trace need nothing else:

    GroupSet GroupDeleted             a group is created, changed, deleted
    Leased Extended                   which consumer holds which offsets, until when
    Settled                           acked, dead-lettered, expired or skipped: never delivered again
    GivenBack                         nacked, timed out, released: will be delivered again
    Sought Committed Lost Forgotten   the group's position: moved by a seek, a commit, retention; deleted
    Held                              retention waits for the group
    Outbox                            messages that must be published with this decision: redone after a crash
    Redriven                          a dead letter of this partition's message was sent back to its topic

They are stored as MessagePack arrays ``[tag, field, ...]`` (docs/format/journal.md).
A new field goes to the end and has a default, so that old journals stay readable.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from penstock.delivery.retries import PARKED_MS

# How a message was settled.
ACKED: Final = 0
DEAD: Final = 1
EXPIRED: Final = 2
SKIPPED: Final = 3
HOW: Final = ("acked", "dead-lettered", "expired", "skipped")

# Why a message was released.
NACKED: Final = 0
TIMED_OUT: Final = 1
RELEASED: Final = 2
RESTARTED: Final = 3
REJECTED: Final = 4
OUTLIVED: Final = 5
DEFERRED: Final = 6
DISCONNECTED: Final = 7
PREPARED: Final = 8
WHY: Final = (
    "nacked", "visibility timeout", "consumer closed", "broker restarted", "rejected", "expired",
    "waits for its key", "connection lost", "waits for its transaction",
)  # fmt: skip
# The same as what happened to the message, in one word.
GIVEN_BACK: Final = (
    "nacked", "timed out", "released", "released", "rejected", "expired", "set aside", "connection lost",
    "set aside",
)  # fmt: skip


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of all events; ``group`` is a number the journal gave to the group's name."""

    group: int


class GroupSet(Event, frozen=True, tag=1):
    """The group exists with these settings, from ``floor`` on if it is new."""

    name: str
    settings: bytes  # JSON of GroupSettings.
    floor: int


class GroupDeleted(Event, frozen=True, tag=2):
    """The group and all its state were deleted."""


class Leased(Event, frozen=True, tag=3):
    """A range went to a consumer."""

    lease: int
    start: int
    end: int
    attempt: int
    deadline_ms: int
    consumer: str


class Settled(Event, frozen=True, tag=4):
    """A range is settled for good; ``lease`` is -1 if it was not leased."""

    lease: int
    start: int
    end: int
    how: int


class GivenBack(Event, frozen=True, tag=5):
    """A range is redelivered as ``attempt`` at ``due_ms``."""

    lease: int
    start: int
    end: int
    attempt: int
    due_ms: int
    why: int
    error_class: str = ""
    error_message: str = ""
    fingerprint: str = ""
    failed_attempt: int = 0  # Which delivery it was that ended so; 0 in a journal that did not say.


class Extended(Event, frozen=True, tag=6):
    """A lease got a new deadline."""

    lease: int
    deadline_ms: int


class Sought(Event, frozen=True, tag=7):
    """The group was moved to an offset; everything before is settled, everything after is not."""

    offset: int


class Committed(Event, frozen=True, tag=8):
    """A stream group's next offset."""

    offset: int
    previous: int = -1  # What it was before; -1 in a journal that did not say.
    epoch: int = -1  # These two as the client sent them.
    metadata: str = ""
    told_ms: int = -1  # When Kafka's clients did: their places are forgotten some time after; -1: others.
    protocol: str = ""  # The protocol type of the Kafka group whose member did.


class Lost(Event, frozen=True, tag=9):
    """Retention deleted what the group had not settled, up to ``offset``."""

    offset: int
    count: int


class Output(msgspec.Struct, frozen=True, array_like=True):
    """One batch to publish, stamped with the journal's producer id so that redoing it is harmless."""

    topic: str
    partition: int
    batch: bytes


class Outbox(Event, frozen=True, tag=10):
    """Publish these; they belong to the settlements written beside them."""

    outputs: list[Output]
    note: str = ""  # For trace: where they went, in words.
    start: int = 0
    end: int = 0


class Redriven(Event, frozen=True, tag=11):
    """The dead letter of this partition's ``offset`` was published again."""

    offset: int
    target: str


class Held(Event, frozen=True, tag=12):
    """Until ``until_ms`` retention leaves the group what is below ``end`` and it has not settled."""

    end: int
    until_ms: int


class Forgotten(Event, frozen=True, tag=13):
    """A stream group has no committed offset any more and starts again at ``offset``."""

    offset: int


def prepared(group: int, lease: int, start: int, end: int, attempt: int) -> GivenBack:
    """A range is acked by a transaction, and not delivered before that is decided."""
    return GivenBack(group, lease, start, end, attempt, PARKED_MS, PREPARED, failed_attempt=attempt)


AnyEvent = (
    GroupSet
    | GroupDeleted
    | Leased
    | Settled
    | GivenBack
    | Extended
    | Sought
    | Committed
    | Lost
    | Outbox
    | Redriven
    | Held
    | Forgotten
)

_decoder: Final[msgspec.msgpack.Decoder[AnyEvent]] = msgspec.msgpack.Decoder(AnyEvent)

# The bytes of an event.  The bound method itself: every lease and every settlement passes here.
encode: Final[Callable[[AnyEvent], bytes]] = msgspec.msgpack.Encoder().encode


def decode(data: bytes) -> AnyEvent:
    """The event of these bytes; ``msgspec.MsgspecError`` if they are none."""
    return _decoder.decode(data)
