"""Producers that number their messages, and their transactions."""

from penstock.errors.base import RequestError


class ProducerFenced(RequestError):
    """A newer epoch of the same producer id has written.

    Cause: a second instance was started with the same producer id, and this one is the older.
    Do: stop this instance, or start a new producer, which gets a new epoch.
    """

    code = "PRODUCER_FENCED"
    sentence = "producer {producer_id} epoch {epoch} is fenced by epoch {current}; start a new producer"
    producer_id: int
    epoch: int
    current: int


class SequenceOutOfOrder(RequestError):
    """An idempotent producer skipped a sequence number: something was lost on the way.

    Cause: a batch before this one was not accepted and not sent again.
    Do: send what is missing, in order; if it is gone, start a new producer.
    """

    code = "SEQUENCE_OUT_OF_ORDER"
    sentence = (
        "producer {producer_id} sent sequence {sequence}, and {expected} was next; resend what is missing"
    )
    producer_id: int
    sequence: int
    expected: int


class SequenceReused(RequestError):
    """A producer used sequence numbers again for something else than it had sent under them before.

    Cause: the batch that had these numbers belongs to a transaction that has ended, is too old to be
    compared, or has other records. Nothing was written: to answer it as a repeat would lose its messages.
    Do: abort the transaction and take a new epoch, which clients of Kafka do by themselves; or start a
    new producer. Then send the messages again.
    """

    code = "SEQUENCE_REUSED"
    sentence = (
        "producer {producer_id} used sequence {sequence} again: {why}; take a new epoch, and send it again"
    )
    producer_id: int
    sequence: int
    why: str


class ProducerUnknown(RequestError):
    """A producer speaks of a transaction, and no transactional id has that producer id.

    Cause: the id was not used for a week and is forgotten, or the broker's data was replaced.
    Do: start a new producer under the same transactional id.
    """

    code = "PRODUCER_UNKNOWN"
    sentence = "producer {producer_id} has no transactional id here; start a new producer"
    producer_id: int


class TransactionNotOpen(RequestError):
    """Something that belongs into a transaction came outside of one.

    Cause: the transaction had ended, or the partition or group was not added to it before.
    Do: begin a transaction and add the partition or group to it first; clients of Kafka do so by themselves.
    """

    code = "TRANSACTION_NOT_OPEN"
    sentence = "{what} does not belong to an open transaction: the producer's is {state}; begin a new one"
    what: str
    state: str
