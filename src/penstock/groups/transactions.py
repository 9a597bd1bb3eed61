"""Transactions of producers: the rules, as plain functions from one state to the next.

A producer with a *transactional id* writes to many partitions, commits offsets of stream groups and
acks messages of queue groups, and all of that takes effect or none of it does.

                       enlist, enlist_acks, ...            end(commit=True)
    EMPTY, COMMITTED ───────────────────────> ONGOING ───────────────────────> COMMITTING ──> COMMITTED
    or ABORTED                                   │                              finish
                                                 ├── end(commit=False) ──────> ABORTING ────> ABORTED
                                                 └── fence: its timeout, or a newer producer

``initialise`` returns a producer id and an epoch.  The next call with the same id gets
the next epoch, and producers with an older one are *fenced*: refused from then on.  So of
two processes with one id the later one wins, and the open transaction of the earlier one
is aborted.

If callers are authenticated, a transactional id belongs to the identity that used it first, because others
could fence its producer and abort its transaction.  Only an identity with a grant that names it, or an
admin, may take it (``Claim``).

The rules are Kafka's, including the special cases: a producer that requests the next
epoch and names its current one (``producer_id`` and ``epoch``) is not fenced by a lost
response; and a repeated ``end`` gets the same answer as the first.

There are two versions of the protocol (KIP-890).  In the first an epoch lasts for many transactions.  In the
second each ends with the next epoch (``end_epoch``), which is decided together with the end and returned in
its response.  Late requests belong to an older epoch, so they cannot be taken for a part of the next
transaction.  After the last epoch of a producer id follows the first of a new one: it is chosen with the
decision (``next_producer_id``), and takes effect with ``finish``, because the markers belong to the old one.

In a cluster the transaction log is the internal topic ``TRANSACTIONS``: the owner of the partition of a
transactional id coordinates its transactions.

Invariants:

    X1  the epoch of a producer id only rises, and rises whenever a producer is fenced
    X2  a batch is accepted only in an ONGOING transaction that has enlisted its partition, so a partition
        with an open transaction is one that ``finish`` will visit
    X3  from COMMITTING there is only COMMITTED, from ABORTING only ABORTED
    X4  an epoch that ``end_epoch`` has ended ends nothing else: it is known as the last one, and gets the
        same answer, or it is fenced

A ``Transaction`` is an immutable value: a decision returns a new one, which the caller writes as a whole
before it takes effect.  Not handled here: files, time and markers (``broker/kafka/transactions.py``), and
the producer state of partitions (``delivery/dedup.py``, ``log/transactions.py``).
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Final, Literal, NamedTuple

import msgspec

from penstock.errors import (
    AlreadySettled,
    Forbidden,
    InvalidValue,
    ProducerFenced,
    ProducerUnknown,
    TransactionBusy,
    TransactionNotOpen,
)
from penstock.groups.commits import Commit
from penstock.wire.murmur import partition_of

LOG_PARTITIONS: Final = 16  # Of the transaction log of a cluster; never changed, as ids are placed by it.
EPOCH_MAX: Final = 32_766  # One below the most that 16 bits hold: a producer with it can still be fenced.
TIMEOUT_MS_MAX: Final = 15 * 60 * 1000  # As Kafka's: for so long a silent producer holds readers up.
NAME_LENGTH_MAX: Final = 1000
ACKS_MAX: Final = 10_000  # Ranges of messages that one transaction acks: its record stays below 1 MiB.
GENERATED: Final = "~"  # A transactional id that the broker chose begins with it.

TopicPartition = tuple[str, int]  # Topic and partition.
State = Literal["empty", "ongoing", "committing", "aborting", "committed", "aborted"]


class Claim(NamedTuple):
    """The caller of a request for a transactional id."""

    who: str = ""  # Empty: authentication is off.
    takes: bool = False  # It may have what is another's.


ANYBODY: Final = Claim()


class GroupCommits(msgspec.Struct, frozen=True, array_like=True):
    """The offsets that a transaction commits for one group."""

    commits: dict[str, dict[int, Commit]] = {}  # By topic and partition.


class AckedRun(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive messages of one lease that a transaction acks."""

    topic: str
    group: str
    partition: int
    lease: int
    start: int
    end: int


class Transaction(msgspec.Struct, frozen=True, array_like=True):
    """The state of one transactional id."""

    producer_id: int
    epoch: int
    timeout_ms: int
    used_ms: int  # Wall time of the last change: an unused id is forgotten.
    state: State = "empty"
    last_epoch: int = -1  # The one before, if its owner itself asked for the next.
    partitions: frozenset[TopicPartition] = frozenset()
    groups: dict[str, GroupCommits] = {}
    owner: str = ""  # Whose name it is; empty: anybody's.
    next_producer_id: int = -1  # Its producer id from ``finish`` on; -1: the same.
    previous_producer_id: int = -1  # The one before, if its owner used up all epochs of that.
    number: int = 0  # Counts the transactions of this id; the next one has the next number.
    acks: tuple[AckedRun, ...] = ()  # Of queue groups; they take effect with the commit.

    def committed_offsets(self) -> Iterator[tuple[str, str, dict[int, Commit]]]:
        """Group, topic, and the offsets by partition that it commits."""
        for group, of_group in self.groups.items():
            for topic, commits in of_group.commits.items():
                yield group, topic, commits

    def has(self, producer_id: int, epoch: int) -> bool:
        return (self.producer_id, self.epoch) == (producer_id, epoch)

    @property
    def is_ending(self) -> bool:
        """Whether the transaction is decided, but not yet finished on all partitions."""
        return self.state in ("committing", "aborting")

    @property
    def is_at_rest(self) -> bool:
        return self.state in ("empty", "committed", "aborted")


class TransactionState(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id as an operator sees it."""

    name: str
    known: Transaction
    begun_ms: int  # Since when its time runs, by the wall clock; -1: nothing is under way.


# What the owner of a partition asks the coordinator for: that the transaction has enlisted the partition
# ("verify"), that the one which is open enlists it ("join"), or begins with it if none is open ("begin").
Enlisting = Literal["verify", "join", "begin"]


class Enlisted(msgspec.Struct, frozen=True, array_like=True):
    """The answer of a coordinator to the owner of a partition: the transaction has enlisted it."""

    number: int
    coordinator_epoch: int


class Decision(msgspec.Struct, frozen=True, array_like=True):
    """How a transaction has ended, as its coordinator reports it to the owners of its partitions."""

    producer_id: int
    epoch: int
    number: int
    commit: bool
    coordinator: int  # The partition of the transaction log ...
    coordinator_epoch: int  # ... and the epoch of its owner.


class ActiveProducer(msgspec.Struct, frozen=True, kw_only=True):
    """A producer that a partition remembers, as an operator sees it."""

    producer_id: int
    epoch: int
    last_sequence: int  # -1: it has written nothing in this epoch.
    last_ms: int
    named: bool  # It has a transactional id.
    first_offset: int  # Of its transaction that is open here; -1: there is none.


def checked_name(name: object) -> str:
    """A transactional id, if it may be one."""
    if isinstance(name, str) and 0 < len(name) <= NAME_LENGTH_MAX:
        return name
    why = f"it is text of 1 to {NAME_LENGTH_MAX} characters"
    raise InvalidValue(name="transactional_id", value=name, why=why)


def log_partition(name: str) -> int:
    """The partition of the transaction log that has a transactional id, in a cluster."""
    return partition_of(name.encode(), LOG_PARTITIONS)


# A name and its producer.


def check_claim(known: Transaction, name: str, claim: Claim) -> None:
    """Refuse a request on behalf of another owner."""
    if claim.who and known.owner not in ("", claim.who) and not claim.takes:
        on = f"transactional id {name}, which is that of {known.owner}"
        raise Forbidden(who=claim.who, operation="use", on=on, role="producer")


def initialise(
    known: Transaction | None,
    new_producer_id: Callable[[], int],
    *,
    timeout_ms: int,
    now_ms: int,
    owner: tuple[int, int] | None = None,
    who: str = "",
) -> Transaction:
    """The producer's next epoch; ``owner`` is the id and epoch that it claims to have, if it does.

    What it has under way is to be aborted before (``fence``).
    """
    if known is None:
        return Transaction(new_producer_id(), 0, timeout_ms, now_ms, owner=who)
    check_owner(known, owner)
    _check_rest(known)
    assert known.state != "ongoing", "it was fenced"
    fresh = {"timeout_ms": timeout_ms, "used_ms": now_ms, "state": "empty", "owner": who or known.owner}
    if owner is not None and owner != (known.producer_id, known.epoch):  # Its answer got lost: here it is.
        return msgspec.structs.replace(known, **fresh)
    fresh |= {"partitions": frozenset(), "groups": {}, "acks": ()}
    if known.epoch >= EPOCH_MAX:
        previous = -1 if owner is None else known.producer_id
        return msgspec.structs.replace(
            known,
            producer_id=new_producer_id(),
            epoch=0,
            last_epoch=-1,
            previous_producer_id=previous,
            **fresh,
        )
    last_epoch = -1 if owner is None else known.epoch
    return msgspec.structs.replace(known, epoch=known.epoch + 1, last_epoch=last_epoch, **fresh)


def check_owner(known: Transaction, owner: tuple[int, int] | None) -> None:
    """Check the id and epoch that a producer claims: current, or current before its own last request."""
    if owner is None:
        return
    if owner != (known.producer_id, known.epoch) and not _was_before(known, *owner):
        raise ProducerFenced(producer_id=owner[0], epoch=owner[1], current=known.epoch)


def _was_before(known: Transaction, producer_id: int, epoch: int) -> bool:
    """Whether the producer had this epoch until its own last request, whose response may be lost."""
    if producer_id == known.producer_id:
        return epoch == known.last_epoch
    return producer_id == known.previous_producer_id and epoch >= EPOCH_MAX and known.epoch == 0


def fence(known: Transaction, now_ms: int) -> Transaction:
    """Abort an open transaction, and fence its producer."""
    assert known.state == "ongoing"
    return msgspec.structs.replace(
        known, epoch=known.epoch + 1, last_epoch=-1, state="aborting", used_ms=now_ms
    )


# What belongs to a transaction.


def enlist(
    known: Transaction, producer_id: int, epoch: int, added: Iterable[TopicPartition], now_ms: int
) -> Transaction:
    """Add partitions that the transaction writes to; the first one begins it."""
    _check_producer(known, producer_id, epoch)
    _check_rest(known)
    partitions = frozenset(added)
    if known.state == "ongoing":
        if partitions <= known.partitions:
            return known
        return msgspec.structs.replace(known, partitions=known.partitions | partitions, used_ms=now_ms)
    return msgspec.structs.replace(
        known,
        state="ongoing",
        partitions=partitions,
        groups={},
        acks=(),
        used_ms=now_ms,
        number=known.number + 1,
    )


def enlist_group(known: Transaction, producer_id: int, epoch: int, group: str, now_ms: int) -> Transaction:
    """Add a group whose offsets the transaction will commit."""
    begun = enlist(known, producer_id, epoch, (), now_ms)
    if group in begun.groups:
        return begun
    return msgspec.structs.replace(begun, groups={**begun.groups, group: GroupCommits()}, used_ms=now_ms)


def enlist_commits(
    known: Transaction,
    producer_id: int,
    epoch: int,
    group: str,
    commits: dict[str, dict[int, Commit]],
    now_ms: int,
) -> Transaction:
    """Add offsets that are committed with the transaction; later ones replace earlier ones."""
    _check_producer(known, producer_id, epoch)
    if known.state != "ongoing" or group not in known.groups:
        raise TransactionNotOpen(what=f"an offset of group {group!r}", state=known.state)
    merged = {topic: dict(of_topic) for topic, of_topic in known.groups[group].commits.items()}
    for topic, of_topic in commits.items():
        merged.setdefault(topic, {}).update(of_topic)
    groups = {**known.groups, group: GroupCommits(merged)}
    return msgspec.structs.replace(known, groups=groups, used_ms=now_ms)


def enlist_acks(
    known: Transaction, producer_id: int, epoch: int, acks: Iterable[AckedRun], now_ms: int
) -> Transaction:
    """Add messages that are acked with the transaction, each of them once."""
    check_ongoing(known, producer_id, epoch, "an ack")
    runs = sorted((*known.acks, *acks), key=msgspec.structs.astuple)
    if len(runs) > ACKS_MAX:
        why = f"a transaction acks up to {ACKS_MAX} ranges of messages; commit more often"
        raise InvalidValue(name="acks", value=len(runs), why=why)
    for before, after in pairwise(runs):
        if _place(before) == _place(after) and before.end > after.start:
            raise AlreadySettled(topic=after.topic, partition=after.partition, offset=after.start)
    return msgspec.structs.replace(known, acks=tuple(runs), used_ms=now_ms)


def check_ongoing(known: Transaction, producer_id: int, epoch: int, what: str) -> None:
    """Refuse a request unless its transaction is open."""
    _check_producer(known, producer_id, epoch)
    if known.state != "ongoing":
        raise TransactionNotOpen(what=what, state=known.state)


def _place(run: AckedRun) -> tuple[str, str, int, int]:
    return run.topic, run.group, run.partition, run.lease


def check_write(known: Transaction | None, producer_id: int, epoch: int, partition: TopicPartition) -> None:
    """Check that a batch may be written as part of a transaction (X2)."""
    if known is None:
        raise ProducerUnknown(producer_id=producer_id)
    _check_producer(known, producer_id, epoch)
    if known.state != "ongoing" or partition not in known.partitions:
        raise TransactionNotOpen(what=f"a batch for {partition[0]}:{partition[1]}", state=known.state)


# Its end.


def end(known: Transaction, producer_id: int, epoch: int, commit: bool, now_ms: int) -> Transaction:
    """Decide the transaction; the same value if it was decided so before and is finished."""
    _check_producer(known, producer_id, epoch)
    if known.state == ("committed" if commit else "aborted"):
        return known
    if known.state == ("committing" if commit else "aborting"):
        raise TransactionBusy(state=known.state)
    if known.state != "ongoing":
        raise TransactionNotOpen(what="its end", state=known.state)
    return msgspec.structs.replace(known, state="committing" if commit else "aborting", used_ms=now_ms)


def end_epoch(
    known: Transaction,
    producer_id: int,
    epoch: int,
    commit: bool,
    new_producer_id: Callable[[], int],
    now_ms: int,
) -> Transaction:
    """Decide the transaction and end its epoch; the same value if that was done before and is finished.

    An abort is possible without a transaction, too: the producer does not know whether its first batch has
    begun one.
    """
    if known.state not in ("empty", "ongoing") and _was_before(known, producer_id, epoch):
        if known.state not in (("committed", "committing") if commit else ("aborted", "aborting")):
            raise TransactionNotOpen(what="its end", state=known.state)
        _check_rest(known)
        return known
    _check_producer(known, producer_id, epoch)
    _check_rest(known)
    if known.state != "ongoing" and commit:
        raise TransactionNotOpen(what="its end", state=known.state)
    return msgspec.structs.replace(
        known,
        state="committing" if commit else "aborting",
        epoch=epoch + 1,
        last_epoch=epoch,
        next_producer_id=new_producer_id() if epoch >= EPOCH_MAX else -1,
        used_ms=now_ms,
    )


def finish(known: Transaction) -> Transaction:
    """Finish a decided transaction: all partitions have markers, all groups their offsets."""
    assert known.is_ending
    state: State = "committed" if known.state == "committing" else "aborted"
    done = msgspec.structs.replace(known, state=state, partitions=frozenset(), groups={}, acks=())
    if known.next_producer_id < 0:
        return done
    return msgspec.structs.replace(
        done,
        producer_id=known.next_producer_id,
        epoch=0,
        last_epoch=-1,
        next_producer_id=-1,
        previous_producer_id=known.producer_id,
    )


def _check_producer(known: Transaction, producer_id: int, epoch: int) -> None:
    if producer_id != known.producer_id:
        raise ProducerUnknown(producer_id=producer_id)
    if epoch != known.epoch:
        raise ProducerFenced(producer_id=producer_id, epoch=epoch, current=known.epoch)


def _check_rest(known: Transaction) -> None:
    if known.is_ending:
        raise TransactionBusy(state=known.state)
