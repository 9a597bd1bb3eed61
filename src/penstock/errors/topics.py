"""Topics, partitions and offsets that are not there, or not as the call needs them."""

from penstock.errors.base import PenstockError, RequestError


class TopicNotFound(RequestError):
    """The topic does not exist.

    Cause: a misspelt name, or the topic was deleted or never created. Publishing and consuming create a
        missing topic, unless ``topic.auto_create`` is off or the caller may not create it; nothing else does.
    Do: create it (``create_topic``, ``penstock topic create``, or ``POST /v1/topics``), or correct the name.
    """

    code = "TOPIC_NOT_FOUND"
    sentence = "there is no topic {topic!r}; create it first, or check the name"
    topic: str


class TopicExists(RequestError):
    """A topic of that name exists already.

    Cause: two programs create the same topic, or one does so at each start.
    Do: use the topic as it is, or change its settings with ``alter_topic``.
    """

    code = "TOPIC_EXISTS"
    sentence = "topic {topic!r} exists already; use alter_topic to change its settings"
    topic: str


class LimitReached(RequestError):
    """There are as many topics, partitions, groups or the like as the broker is allowed to have.

    Cause: programs make topics or groups with ever new names, or the limit is too low for what is needed.
    Do: delete what nobody uses, or raise the setting that the sentence names.
    """

    code = "LIMIT_REACHED"
    sentence = "{limit} {what} is the limit; delete some, or raise broker.{setting}"
    what: str
    limit: int
    setting: str


class PartitionNotFound(RequestError):
    """The topic has fewer partitions than that.

    Cause: the partition number is not below the topic's partition count.
    Do: ask the topic for its partitions; leave the partition out to let the key choose.
    """

    code = "PARTITION_NOT_FOUND"
    sentence = "topic {topic!r} has partitions 0 to {last}, not {partition}"
    topic: str
    partition: int
    last: int


class OffsetOutOfRange(RequestError):
    """The offset is below the log's start or above its end.

    Cause: retention has deleted the offset since it was noted, or it was never written.
    Do: seek to earliest, to latest or to a time; lengthen the retention if readers fall behind.
    """

    code = "OFFSET_OUT_OF_RANGE"
    sentence = "offset {offset} is outside the log, which holds {start} up to {end}"
    offset: int
    start: int
    end: int


class RestoreRefused(RequestError):
    """Deleted offsets cannot be put back below the log's start.

    Cause: they do not reach up to where the log begins, somebody else has begun to restore the same
        partition, or the topic is compacted.
    Do: read where the log begins and restore everything up to there, in one go; replay what is in a
        compacted topic's past to another topic.
    """

    code = "RESTORE_REFUSED"
    sentence = "offsets {start} up to {end} cannot be put back: {why}"
    start: int
    end: int
    why: str


class TopicDamaged(PenstockError):
    """A topic is offline: a file that it cannot do without is damaged.  All other topics work.

    Cause: the disk returned other bytes than were written, or something else changed a file.
    Do: run ``penstock check`` on the data directory to see what is damaged.  Restore the file from a copy,
        or run ``penstock repair``; the server must not be running then.
    """

    code = "TOPIC_DAMAGED"
    sentence = (
        "topic {topic!r} is offline, because its files are damaged: {why}; "
        "run penstock check on the data directory, and restore the file or run penstock repair"
    )
    topic: str
    why: str


class StagedMissing(RequestError):
    """What a job staged is not there any more, so it cannot be published; nothing was.

    Cause: more than a day passed between staging and publishing; the power went before it was synced; or the
        topic ``__staging`` was deleted.
    Do: run the job again; it stages anew.
    """

    code = "STAGED_MISSING"
    sentence = (
        "what {token!r} staged at offsets {start} to {end} cannot be published: {why}; run the job again"
    )
    token: str
    start: int
    end: int
    why: str
