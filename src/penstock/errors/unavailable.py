"""Temporary failures: the request is valid, nothing was changed, and a retry may succeed."""

from penstock.errors.base import UnavailableError


class QueueFull(UnavailableError):
    """A bounded buffer is full; the caller should slow down.

    Cause: publishers are faster than consumers, and the depth of the topic or a buffer is limited.
    Do: slow down and retry, add consumers, raise the limit, or choose the policy ``wait``.
    """

    code = "QUEUE_FULL"
    sentence = "{what} is full: the limit is {limit}; slow down and try again"
    what: str
    limit: int


class DiskFull(UnavailableError):
    """The disk is full; nothing was written, and existing data stays readable.

    Cause: the file system is full, or the disk quota is used up.
    Do: free some space or shorten the retention; consumers continue meanwhile, and publishing resumes
        automatically.
    """

    code = "DISK_FULL"
    sentence = "no room on the disk for {path!r}; nothing was written: free some space and try again"
    path: str


class MetadataStale(UnavailableError):
    """A batch was encoded for settings that the topic no longer has.

    Cause: the topic was altered or recreated since the client fetched its settings.
    Do: fetch the settings again and encode the batch again; Penstock's client does so automatically.
    """

    code = "METADATA_STALE"
    sentence = "topic {topic!r} has changed since version {version} of its settings; fetch them again"
    topic: str
    version: int


class TransactionBusy(UnavailableError):
    """The producer's last transaction is decided but not finished: its markers are being written.

    Cause: the producer did not wait for the response to its commit or abort, or a disk is slow or full.
    Do: try again after a moment.
    """

    code = "TRANSACTION_BUSY"
    sentence = "the last transaction is still {state}; try again"
    state: str


class Overloaded(UnavailableError):
    """The server has reached its limit of in-flight requests or connections.

    Cause: clients send faster than the disk can write, or there are more connections than allowed.
    Do: retry with exponential backoff; raise the limit if the machine can handle it.
    """

    code = "OVERLOADED"
    sentence = "the server is overloaded: the limit is {limit} {what}; wait and try again"
    what: str
    limit: int


class QuotaExceeded(UnavailableError):
    """A key or user exceeds its quota, or has too many failed logins.

    Cause: it publishes faster than its quota, has the maximum number of connections, or must wait after
        failed logins.
    Do: wait for ``retry_after`` seconds and try again; an admin can raise the quota.
    """

    code = "QUOTA_EXCEEDED"
    sentence = "{who} has exceeded its quota: {limit} {what}; try again in {retry_after} seconds"
    who: str
    what: str
    limit: int
    retry_after: int


class ShuttingDown(UnavailableError):
    """The server is shutting down and accepts no new requests.

    Cause: it is being stopped or updated.
    Do: reconnect in a moment, or to another server.
    """

    code = "SHUTTING_DOWN"
    sentence = "the {what} is shutting down; reconnect in a moment"
    what: str


class Unhealthy(UnavailableError):
    """The server runs, but has a storage problem, so it should get no new clients.

    Cause: the disk is full or failed, the data directory was removed, or stored data is damaged.
    Do: look at the overview page of the dashboard or the server's log, which name the problem and its fix.
    """

    code = "UNHEALTHY"
    sentence = "the server has storage problems: {problems}; see the dashboard's overview or the server's log"
    problems: str


class ServerUnreachable(UnavailableError):
    """The client cannot reach the server; the request was not sent, or changes nothing.

    Cause: no server listens there, it is being restarted, or the network is down.
    Do: check the address and that ``penstock serve`` is running; call again later. The client keeps trying to
        reconnect.
    """

    code = "SERVER_UNREACHABLE"
    sentence = "{server} cannot be reached: {why}; check the address, and that penstock serve is running"
    server: str
    why: str
