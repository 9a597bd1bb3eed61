"""Failures that neither the caller nor a retry can fix: lost responses, disk failures, corruption."""

from penstock.errors.base import PenstockError


class OutcomeUnknown(PenstockError):
    """The connection broke after the request was sent and before the response arrived.

    Cause: the server or the network failed at that moment, and the client cannot safely repeat the
        operation, or its timeout passed before the server was back.
    Do: check whether the operation was done (``topics``, ``scheduled``, ``read``); if not, call again.
    """

    code = "OUTCOME_UNKNOWN"
    sentence = (
        "{operation} was sent to {server}, but not answered; check whether it was done, then call again"
    )
    operation: str
    server: str


class StorageFailed(PenstockError):
    """A write or sync failed, so the state on disk is unknown; the partition accepts no more writes.

    Cause: the disk or the file system reported an error.
    Do: check the system log and the disk, then reopen the broker; recovery keeps every acknowledged message.
    """

    code = "STORAGE_FAILED"
    sentence = (
        "{path!r} failed: {why}; it accepts no writes until the broker is reopened and has recovered it"
    )
    path: str
    why: str


class CorruptionError(PenstockError):
    """Bytes on disk do not match their checksum, and the request needs them.

    Cause: the disk returned wrong bytes, or another program changed the file.
    Do: run ``penstock check`` on the data directory to see what is damaged. Restore the file from a backup or
        run ``penstock repair``; then check the disk.
    """

    code = "CORRUPTION"
    sentence = (
        "{path!r} is damaged at byte {position}: {why}; "
        "run penstock check on the data directory, then restore the file or run penstock repair"
    )
    path: str
    position: int
    why: str
