"""Transactions over HTTP: begin, publish, ack, commit, abort.

    POST /v1/transactions                                        {"transaction": "3.0.YmlsbGluZw", ...}
    POST /v1/transactions/3.0.YmlsbGluZw/topics/bills/publish
    POST /v1/transactions/3.0.YmlsbGluZw/topics/orders/groups/billing/ack
    POST /v1/transactions/3.0.YmlsbGluZw/commit

The name of a transaction in a path is its producer id, its epoch, and its transactional id in base64url, so
the server keeps nothing of it between requests.  It is no secret: with authentication a transactional id
belongs to the identity that used it first, and the broker checks that.
"""

import base64
import binascii
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from penstock.errors import InvalidValue, RequestInvalid
from penstock.frontends.http.call import HttpCall
from penstock.frontends.http.handlers.messages.batches import PublishResult
from penstock.frontends.http.handlers.messages.consuming import Ack, holder, permit, run_of, unknown_receipt
from penstock.frontends.http.handlers.messages.publishing import (
    Duration,
    NewMessage,
    message_of,
    trace_context,
)
from penstock.operations.call import TRANSACTION_TIMEOUT

MESSAGES_MAX: Final = 10_000  # Of one publish.


class NewTransaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A transaction to begin."""

    id: str | None = None  # The transactional id; None: the broker chooses one.
    timeout: Duration = TRANSACTION_TIMEOUT


class BegunTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that is open."""

    transaction: str  # Its name in the paths of the following requests.
    id: str


class TransactionMessages(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages to publish, all of them or none."""

    messages: Annotated[list[NewMessage], Meta(min_length=1, max_length=MESSAGES_MAX)]


class TransactionResults(msgspec.Struct, frozen=True):
    """The position of each message, in order."""

    results: list[PublishResult]


class AckedCount(msgspec.Struct, frozen=True):
    """How many messages are acknowledged with the commit."""

    acknowledged: int


class EndedTransaction(msgspec.Struct, frozen=True):
    """How the transaction ended."""

    state: str


async def begin_transaction(call: HttpCall) -> BegunTransaction:
    """Begin a transaction. One that the same id has under way is aborted."""
    wanted: NewTransaction = call.body
    begun = await call.run(call.operations.begin_transaction(wanted.id, wanted.timeout))
    name = base64.urlsafe_b64encode(begun.transactional_id.encode()).decode().rstrip("=")
    return BegunTransaction(
        transaction=f"{begun.producer_id}.{begun.epoch}.{name}", id=begun.transactional_id
    )


async def publish_in_transaction(call: HttpCall) -> TransactionResults:
    """Publish messages that readers see when the transaction is committed."""
    body: TransactionMessages = call.body
    context = trace_context(call)
    messages = [message_of(each, None, context) for each in body.messages]
    work = call.operations.publish_in_transaction(call.topic, messages, *_transaction(call))
    return TransactionResults(
        [
            PublishResult(
                ok=True, partition=receipt.partition, offset=receipt.offset, timestamp=receipt.timestamp
            )
            for receipt in await call.run(work)
        ]
    )


async def ack_in_transaction(call: HttpCall) -> AckedCount:
    """Acknowledge received messages when the transaction is committed: all of them, or it fails."""
    permit(call)
    body: Ack = call.body
    if (body.receipt is None) == (body.receipts is None):
        raise RequestInvalid(part="body", why="give either a receipt, or a list of receipts")
    receipts = [body.receipt] if body.receipt is not None else list(dict.fromkeys(body.receipts or []))
    held, unknown = call.shared.receipts.read(receipts)
    if unknown:
        raise unknown_receipt(unknown[0])
    for each in held:
        holder(call, each)
    runs = [run_of(each) for each in held]
    await call.run(call.operations.ack_in_transaction(call.topic, call.group, runs, *_transaction(call)))
    return AckedCount(sum(end - start for _, _, start, end in runs))


async def commit_transaction(call: HttpCall) -> EndedTransaction:
    """Commit a transaction. The response means that every reader can see all of it."""
    await call.run(call.operations.commit_transaction(*_transaction(call)))
    return EndedTransaction("committed")


async def abort_transaction(call: HttpCall) -> EndedTransaction:
    """Abort a transaction: nothing of it takes effect."""
    await call.run(call.operations.abort_transaction(*_transaction(call)))
    return EndedTransaction("aborted")


def _transaction(call: HttpCall) -> tuple[str, int, int]:
    """Transactional id, producer id and epoch of the transaction in the path."""
    named: Any = call.path["transaction"]
    try:
        producer_id, epoch, name = named.split(".")
        padded = name + "=" * (-len(name) % 4)
        return base64.urlsafe_b64decode(padded.encode("ascii")).decode(), int(producer_id), int(epoch)
    except (ValueError, binascii.Error):
        why = "give the transaction that POST /v1/transactions has returned"
        raise InvalidValue(name="transaction", value=named[:100], why=why) from None
