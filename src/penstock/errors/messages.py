"""Names, values and messages that are wrong in themselves, whatever the broker holds."""

from penstock.errors.base import RequestError


class InvalidName(RequestError):
    """A topic, group or consumer name breaks the grammar of names.

    Cause: the name is empty, too long, or has a character that is not safe in the name of a folder.
    Do: choose a name of 1 to 200 letters, digits, '.', '_' or '-', not starting with '.' or '__'.
    """

    code = "NAME_INVALID"
    sentence = (
        "{kind} name {name!r} is not allowed: {why}; "
        "use 1 to 200 letters, digits, '.', '_' or '-', not starting with '.' or '__'"
    )
    kind: str
    name: str
    why: str


class InvalidValue(RequestError):
    """An argument or setting has a value that makes no sense.

    Cause: a duration, a time, a count or an option is of the wrong type or outside its range.
    Do: read the sentence, which names the argument and what it accepts, and correct the call or the
        setting.
    """

    code = "VALUE_INVALID"
    sentence = "{name} cannot be {value!r}: {why}"
    name: str
    value: object
    why: str


class UnknownPriority(RequestError):
    """The priority is not the name or number of a lane.

    Cause: a misspelt name, or a number that no lane has.
    Do: use critical, high, normal, low or background, or a number from 2 down to -2.
    """

    code = "PRIORITY_UNKNOWN"
    sentence = "there is no priority {priority!r}; use one of {known}"
    priority: object
    known: str


class DelayOutOfRange(RequestError):
    """The delay is negative or beyond the topic's ``delay_max``.

    Cause: a negative delay, or a due time further off than the topic allows.
    Do: correct the delay, or raise the topic's ``delay_max``.
    """

    code = "DELAY_OUT_OF_RANGE"
    sentence = (
        "a delay of {delay_ms} ms is outside 0 to {limit_ms} ms; raise the topic's delay_max to go further"
    )
    delay_ms: int
    limit_ms: int


class EmptyMessage(RequestError):
    """A message without a value; only a key makes that a tombstone.

    Cause: ``value`` is None and there is no key.
    Do: publish bytes (``b""`` is fine), or add the key whose older values the tombstone shall remove.
    """

    code = "MESSAGE_EMPTY"
    sentence = "a message for {topic!r} has no value; give bytes, or a key to publish a tombstone"
    topic: str


class MessageTooLarge(RequestError):
    """Key, value and headers together exceed the topic's ``message_bytes_max``.

    Cause: the message is larger than the topic accepts.
    Do: keep large bodies elsewhere and publish a reference, split the message, or raise
        ``message_bytes_max``.
    """

    code = "MESSAGE_TOO_LARGE"
    sentence = (
        "the message has {size_bytes} bytes and the limit is {limit_bytes}; "
        "raise message_bytes_max or split it"
    )
    size_bytes: int
    limit_bytes: int


class InvalidBatch(RequestError):
    """Bytes that should be a record batch are not one.

    Cause: a client built the batch wrongly, the bytes were cut short, or they were changed on the way.
    Do: encode it again; if the bytes came over a network, look for a proxy or a client library that
        alters them.
    """

    code = "BATCH_INVALID"
    sentence = "not a valid record batch: {why}"
    why: str


class InvalidRecords(RequestError):
    """The records of a batch cannot be read: every reader would have to stop there.

    Cause: a client built the batch wrongly: lengths, counts or offsets that do not fit, data that cannot be
    unpacked, names of headers that are not UTF-8.
    Do: encode it again with a library that is tested, and tell its makers.
    """

    code = "RECORDS_INVALID"
    sentence = "the records of the batch cannot be read: {why}; nothing was written, encode it again"
    why: str

    def __init__(self, *, why: str) -> None:
        super().__init__(why=why)
        self.records: list[int] = []  # Indexes of the invalid ones; empty if the batch is.


class KeyMissing(RequestError):
    """A message without a key was published to a compacted topic.

    Cause: compaction keeps the last message of each key, and this one has none: it could never be replaced or
    deleted.
    Do: publish it with a key, or to a topic that is not compacted.
    """

    code = "KEY_MISSING"
    sentence = "topic {topic!r} is compacted, and a message for it has no key; give it one"
    topic: str

    def __init__(self, *, topic: str) -> None:
        super().__init__(topic=topic)
        self.records: list[int] = []  # Indexes of the records without a key.
