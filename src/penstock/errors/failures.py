"""What neither the caller nor time mends: a lost answer, a failed disk, damaged bytes."""

from penstock.errors.base import PenstockError


class OutcomeUnknown(PenstockError):
    """The connection to the server broke after the call was sent and before its answer came.

    Cause: the server or the network failed at that moment, and the call is not one that the client may
        repeat without doing it twice, or its time ran out before the server came back.
    Do: look whether it was done (``topics``, ``scheduled``, ``read``), and call again if it was not.
    """

    code = "OUTCOME_UNKNOWN"
    sentence = "{operation} was sent to {server} and not answered; look whether it was done, then call again"
    operation: str
    server: str


class StorageFailed(PenstockError):
    """A write or a sync failed, so what is on disk is not known; the partition takes no more writes.

    Cause: the disk or the file system reported an error.
    Do: look at the system log and the disk, then reopen the broker: recovery keeps everything that was
        acknowledged.
    """

    code = "STORAGE_FAILED"
    sentence = (
        "{path!r} failed: {why}; it takes no more writes until the broker is reopened and has recovered it"
    )
    path: str
    why: str


class CorruptionError(PenstockError):
    """Bytes on disk do not match their checksum, and what was asked for cannot do without them.

    Cause: the disk returned other bytes than were written, or something else changed the file.
    Do: run ``penstock check`` on the data directory to see what is damaged. Restore the file from a copy, or
        run ``penstock repair``; then check the disk.
    """

    code = "CORRUPTION"
    sentence = (
        "{path!r} is damaged at byte {position}: {why}; "
        "run penstock check on the data directory, and restore the file or run penstock repair"
    )
    path: str
    position: int
    why: str
