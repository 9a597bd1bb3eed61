"""Idempotent producers and transactions."""

from penstock.errors.base import RequestError


class ProducerFenced(RequestError):
    """A producer with the same id and a newer epoch has written.

    Cause: a second instance was started with the same producer id, and this is the older one.
    Do: stop this instance, or start a new producer, which gets a new epoch.
    """

    code = "PRODUCER_FENCED"
    sentence = "producer {producer_id} epoch {epoch} is fenced by epoch {current}; start a new producer"
    producer_id: int
    epoch: int
    current: int


class SequenceOutOfOrder(RequestError):
    """An idempotent producer skipped a sequence number, so a batch was lost on the way.

    Cause: an earlier batch was not accepted and not sent again.
    Do: send the missing batches in order; if they are lost, start a new producer.
    """

    code = "SEQUENCE_OUT_OF_ORDER"
    sentence = (
        "producer {producer_id} sent sequence {sequence}, but {expected} is next; resend the missing ones"
    )
    producer_id: int
    sequence: int
    expected: int


class SequenceReused(RequestError):
    """A producer reused sequence numbers for different records.

    Cause: the batch that had these numbers belongs to a transaction that has ended, is too old to be
        compared, or has other records. Nothing was written; answering as for a duplicate would lose it.
    Do: abort the transaction and take a new epoch, as Kafka clients do automatically, or start a new
        producer. Then send the messages again.
    """

    code = "SEQUENCE_REUSED"
    sentence = "producer {producer_id} reused sequence {sequence}: {why}; take a new epoch and send it again"
    producer_id: int
    sequence: int
    why: str


class ProducerUnknown(RequestError):
    """The producer id of a transactional request belongs to no transactional id.

    Cause: the transactional id was not used for a week and has expired, or the broker's data was replaced.
    Do: start a new producer with the same transactional id.
    """

    code = "PRODUCER_UNKNOWN"
    sentence = "producer {producer_id} has no transactional id; start a new producer"
    producer_id: int


class TransactionAborted(RequestError):
    """The transaction was aborted by the broker; it had no effect.

    Cause: it took longer than its timeout, another program began a transaction with the same transactional
        id, or the id was not used for long and is forgotten.
    Do: begin a new transaction and do the work again; give it a longer timeout if the work takes so long.
    """

    code = "TRANSACTION_ABORTED"
    sentence = (
        "the transaction of {transactional_id!r} was aborted: it timed out, or the same id began another one;"
        " begin a new transaction"
    )
    transactional_id: str


class TransactionNotOpen(RequestError):
    """A transactional write or commit arrived outside an open transaction.

    Cause: the transaction had ended, or the partition or group was not added to it first.
    Do: begin a transaction and add the partition or group first; Kafka clients do this automatically.
    """

    code = "TRANSACTION_NOT_OPEN"
    sentence = "{what} is not part of an open transaction: the producer's is {state}; begin a new one"
    what: str
    state: str
