"""Dead letters: count by error, list, show and redrive."""

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.frontends.http.call import HttpCall
from penstock.frontends.http.handlers.messages.browsing import Count
from penstock.frontends.http.handlers.messages.showing import BrowsedMessage, shown
from penstock.frontends.http.messages import As
from penstock.model.info import DeadLetter, DeadLetterErrors, Redrive


class OfTopic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One topic, or all."""

    topic: str | None = None


class Listing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"way": "as"}):
    """How many, and the format of their values."""

    limit: Count = 1000
    way: As = "base64"


class DeadLetterListing(Listing, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"way": "as"}):
    """The same, and whether to add what values in Confluent's wire format say, by the topic's schemas."""

    decode: bool = False


class Showing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"way": "as"}):
    """Format of the value, and whether to add what it says, by the topic's schemas."""

    way: As = "base64"
    decode: bool = False


class DeadLetterDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter and its history."""

    message: BrowsedMessage
    source: str  # Id of the message it was.
    group: str
    attempts: int
    reason: str
    error: str
    fingerprint: str
    first_failed_ms: int
    last_failed_ms: int


class DeadLetterList(msgspec.Struct, frozen=True):
    """The dead letters of a topic that were not redriven."""

    dead_letters: list[DeadLetterDocument]


class ErrorList(msgspec.Struct, frozen=True):
    """Dead letters counted by error, the most frequent first."""

    errors: list[DeadLetterErrors]


class RedriveSome(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters to redrive, and how fast."""

    limit: Annotated[int, Meta(ge=1)] = 1_000_000
    rate: Annotated[float, Meta(gt=0)] | None = None  # Messages a second.
    dry_run: bool = False
    error: str | None = None  # A fingerprint, the class of an error, or the id of one message.
    group: str | None = None


async def list_errors(call: HttpCall) -> ErrorList:
    """Count dead letters by the fingerprint of their error, in one topic or all that you may see."""
    wanted: OfTopic = call.query
    return ErrorList(await call.run(call.operations.dead_letter_errors(wanted.topic)))


async def list_dead_letters(call: HttpCall) -> DeadLetterList:
    """List the dead letters of a topic that were not redriven, with their errors."""
    wanted: DeadLetterListing = call.query
    found = await call.run(call.operations.dead_letters(call.topic, wanted.limit))
    messages = await shown(call, [letter.message for letter in found], wanted.way, wanted.decode)
    return DeadLetterList([_document(*pair) for pair in zip(found, messages, strict=True)])


async def show_dead_letter(call: HttpCall) -> DeadLetterDocument:
    """Show a dead letter by its id, even if it was redriven."""
    wanted: Showing = call.query
    found = await call.run(call.operations.dead_letter(call.topic, call.path["id"]))
    [message] = await shown(call, [found.message], wanted.way, wanted.decode)
    return _document(found, message)


async def redrive(call: HttpCall) -> Redrive:
    """Redrive dead letters to their topic, all or some; a dry run only counts them."""
    some: RedriveSome = call.body
    return await call.run(
        call.operations.redrive(call.topic, some.limit, some.rate, some.dry_run, some.error, some.group)
    )


def _document(letter: DeadLetter, message: BrowsedMessage) -> DeadLetterDocument:
    return DeadLetterDocument(
        message=message,
        source=letter.source,
        group=letter.group,
        attempts=letter.attempts,
        reason=letter.reason,
        error=letter.error,
        fingerprint=letter.fingerprint,
        first_failed_ms=letter.first_failed_ms,
        last_failed_ms=letter.last_failed_ms,
    )
