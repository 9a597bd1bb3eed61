"""What passes: the call is fine, nothing was changed, and a later one may succeed."""

from penstock.errors.base import UnavailableError


class QueueFull(UnavailableError):
    """A bounded buffer is full; the caller should slow down.

    Cause: publishers are faster than consumers, and the topic's depth or a buffer is bounded.
    Do: slow down and try again, add consumers, raise the limit, or choose the policy ``wait``.
    """

    code = "QUEUE_FULL"
    sentence = "{what} is full: {limit} is the limit; slow down and try again"
    what: str
    limit: int


class DiskFull(UnavailableError):
    """The disk has no room; nothing was written, and what was there stays readable.

    Cause: the file system has no room, or the quota is used up.
    Do: free some space or shorten the retention; consumers go on meanwhile, and publishing works again
        by itself.
    """

    code = "DISK_FULL"
    sentence = "no room on the disk for {path!r}; nothing was written: free some space and try again"
    path: str


class MetadataStale(UnavailableError):
    """A batch was encoded for settings that its topic no longer has.

    Cause: the topic was altered or made anew since the client asked for its settings.
    Do: ask for the topic's settings again and encode the batch anew; Penstock's client does so by itself.
    """

    code = "METADATA_STALE"
    sentence = "topic {topic!r} has changed since version {version} of its settings; ask for them again"
    topic: str
    version: int


class TransactionBusy(UnavailableError):
    """The producer's last transaction is decided and not finished: its markers are being written.

    Cause: the answer to its end was not awaited, or a disk is slow or full.
    Do: try again after a moment.
    """

    code = "TRANSACTION_BUSY"
    sentence = "the last transaction is still {state}; try again"
    state: str


class Overloaded(UnavailableError):
    """The server has as much in hand as it is allowed to have.

    Cause: clients send faster than the disk takes it, or there are more connections than the limit.
    Do: wait a little, longer each time, and try again; raise the limit if the machine can bear it.
    """

    code = "OVERLOADED"
    sentence = "the server has too much in hand: {limit} {what} is the limit; wait and try again"
    what: str
    limit: int


class QuotaExceeded(UnavailableError):
    """A key or a user does more than its quota allows; or logs in too often with a wrong secret.

    Cause: it publishes faster than its quota, or has as many connections as it may have; or logins have
        failed, and the next one has to wait.
    Do: wait for ``retry_after`` seconds and try again; an admin can raise the quota.
    """

    code = "QUOTA_EXCEEDED"
    sentence = "{who} has used up its quota: {limit} {what}; try again in {retry_after} seconds"
    who: str
    what: str
    limit: int
    retry_after: int


class ShuttingDown(UnavailableError):
    """The server is about to end and takes no new work.

    Cause: it was told to stop, for an update or for good.
    Do: connect again in a moment, or to another server.
    """

    code = "SHUTTING_DOWN"
    sentence = "the {what} is shutting down; connect again in a moment"
    what: str


class Unhealthy(UnavailableError):
    """The server runs, and something is wrong with its storage, so it should get no new clients.

    Cause: the disk is full or failed, the data directory was removed, or stored bytes are damaged.
    Do: look at the overview of the dashboard, or at the server's log; it says what is wrong and what to do.
    """

    code = "UNHEALTHY"
    sentence = "the server has problems with its storage: {problems}; its overview and its log say more"
    problems: str


class ServerUnreachable(UnavailableError):
    """A client cannot reach its server; the call was not sent, or changes nothing.

    Cause: no server listens there, it is being restarted, or the network between is down.
    Do: check the address and that ``penstock serve`` is running; call again later. The client goes on trying
        to connect by itself.
    """

    code = "SERVER_UNREACHABLE"
    sentence = "{server} cannot be reached: {why}; check the address, and that penstock serve is running"
    server: str
    why: str
