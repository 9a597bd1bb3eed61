"""Topics, partitions and offsets that do not exist or cannot be used."""

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


class QueueNotFound(RequestError):
    """No queue has that name.

    Cause: a misspelt name, or a topic without a group ``default`` of the kind ``queue``, which is no queue.
    Do: create the queue with ``broker.queue(name)``, or check the name; ``broker.queues()`` lists them.
    """

    code = "QUEUE_NOT_FOUND"
    sentence = "there is no queue {queue!r}; create it first, or check the name"
    queue: str


class TopicExists(RequestError):
    """A topic with that name already exists.

    Cause: two programs create the same topic, or one creates it at every start.
    Do: use the existing topic, or change its settings with ``alter_topic``.
    """

    code = "TOPIC_EXISTS"
    sentence = "topic {topic!r} already exists; use alter_topic to change its settings"
    topic: str


class LimitReached(RequestError):
    """The broker has reached its limit of topics, partitions, groups or the like.

    Cause: programs keep creating topics or groups with new names, or the limit is too low.
    Do: delete unused ones, or raise the setting that the message names.
    """

    code = "LIMIT_REACHED"
    sentence = "the limit is {limit} {what}; delete some, or raise broker.{setting}"
    what: str
    limit: int
    setting: str


class PartitionNotFound(RequestError):
    """The topic has no partition with that number.

    Cause: the partition number is not below the topic's partition count.
    Do: look up the topic's partition count, or omit the partition so that the key chooses it.
    """

    code = "PARTITION_NOT_FOUND"
    sentence = "topic {topic!r} has partitions 0 to {last}, not {partition}"
    topic: str
    partition: int
    last: int


class OffsetOutOfRange(RequestError):
    """The offset is below the start or above the end of the log.

    Cause: retention has deleted the offset, or it was never written.
    Do: seek to earliest, latest or a time; raise the retention if consumers fall behind.
    """

    code = "OFFSET_OUT_OF_RANGE"
    sentence = "offset {offset} is outside the log, which holds {start} up to {end}"
    offset: int
    start: int
    end: int


class RestoreRefused(RequestError):
    """Deleted offsets cannot be restored below the start of the log.

    Cause: they do not reach up to the start of the log, another client is restoring the same partition, or
        the topic is compacted.
    Do: look up the start of the log and restore everything up to it in one go; to get old messages of a
        compacted topic, replay them to another topic.
    """

    code = "RESTORE_REFUSED"
    sentence = "offsets {start} up to {end} cannot be restored: {why}"
    start: int
    end: int
    why: str


class TopicDamaged(PenstockError):
    """The topic is offline because one of its files is damaged.  All other topics work.

    Cause: the disk returned wrong bytes, or another program changed a file.
    Do: run ``penstock check`` on the data directory to see what is damaged. Stop the server, then restore the
        file from a backup or run ``penstock repair``.
    """

    code = "TOPIC_DAMAGED"
    sentence = (
        "topic {topic!r} is offline because its files are damaged: {why}; "
        "run penstock check on the data directory, then restore the file or run penstock repair"
    )
    topic: str
    why: str


class StagedMissing(RequestError):
    """Messages that a job staged no longer exist, so they cannot be published; nothing was published.

    Cause: more than a day passed between staging and publishing, a power failure hit before they were
        synced, or the topic ``__staging`` was deleted.
    Do: run the job again; it stages the messages again.
    """

    code = "STAGED_MISSING"
    sentence = (
        "messages that {token!r} staged at {start} to {end} cannot be published: {why}; run the job again"
    )
    token: str
    start: int
    end: int
    why: str
