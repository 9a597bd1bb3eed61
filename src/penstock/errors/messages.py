"""Invalid names, values and messages."""

from penstock.errors.base import RequestError


class InvalidName(RequestError):
    """A topic, group or consumer name is invalid.

    Cause: the name is empty, too long, or has a character that is not safe in a directory name.
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
    """An argument or setting has an invalid value.

    Cause: a duration, time, count or option has the wrong type or is out of range; or the value of a message
        is not what ``json()`` or ``text`` expects.
    Do: correct the argument or setting; the message names it and says which values it accepts.
    """

    code = "VALUE_INVALID"
    sentence = "{name} cannot be {value!r}: {why}"
    name: str
    value: object
    why: str


class UnknownPriority(RequestError):
    """The priority is neither the name of a lane nor a whole number.

    Cause: a misspelt name, or a fraction.
    Do: use critical, high, normal, low or background, or a whole number: the higher, the more urgent.
    """

    code = "PRIORITY_UNKNOWN"
    sentence = "there is no priority {priority!r}; use one of {known}"
    priority: object
    known: str


class MessageExpired(InvalidValue):
    """The message expired before it was published.

    Cause: its time to live is zero or negative, as the rest of a deadline that has passed is.
    Do: drop the message, or give it more time.
    """

    code = "MESSAGE_EXPIRED"
    sentence = "the message has expired: its {name} is {value!r}, and {why}"
    name: str
    value: object
    why: str


class DelayOutOfRange(RequestError):
    """The delay is negative or exceeds the topic's ``delay_max``.

    Cause: a negative delay, or a due time later than the topic allows.
    Do: correct the delay, or raise the topic's ``delay_max``.
    """

    code = "DELAY_OUT_OF_RANGE"
    sentence = (
        "a delay of {delay_ms} ms is outside 0 to {limit_ms} ms; raise the topic's delay_max to allow it"
    )
    delay_ms: int
    limit_ms: int


class EmptyMessage(RequestError):
    """The message has neither a value nor a key; a tombstone needs a key.

    Cause: ``value`` is None and there is no key.
    Do: publish bytes (``b""`` is allowed), or add the key whose older values the tombstone removes.
    """

    code = "MESSAGE_EMPTY"
    sentence = "a message for {topic!r} has no value; pass bytes, or a key to publish a tombstone"
    topic: str


class MessageTooLarge(RequestError):
    """Key, value and headers together exceed the topic's ``message_bytes_max``.

    Cause: the message is larger than the topic accepts.
    Do: store large bodies elsewhere and publish a reference, split the message, or raise
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
    """The bytes are not a valid record batch.

    Cause: a client built the batch incorrectly, or the bytes were truncated or changed on the way.
    Do: encode the batch again; if it came over a network, look for a proxy or client library that changes
        the bytes.
    """

    code = "BATCH_INVALID"
    sentence = "not a valid record batch: {why}"
    why: str


class InvalidRecords(RequestError):
    """The records of a batch cannot be decoded, so every reader would stop there.

    Cause: a client built the batch incorrectly: inconsistent lengths, counts or offsets, data that cannot be
        decompressed, or header names that are not UTF-8.
    Do: encode the batch with a tested client library, and report the bug to its maintainers.
    """

    code = "RECORDS_INVALID"
    sentence = "the records of the batch cannot be read: {why}; nothing was written, encode it again"
    why: str

    def __init__(self, *, why: str) -> None:
        super().__init__(why=why)
        self.records: list[int] = []  # Indexes of the invalid records; empty if the batch itself is invalid.


class KeyMissing(RequestError):
    """A message without a key was published to a compacted topic.

    Cause: compaction keeps the last message of each key; a message without one could never be replaced or
        deleted.
    Do: publish it with a key, or to a topic that is not compacted.
    """

    code = "KEY_MISSING"
    sentence = "topic {topic!r} is compacted, and a message for it has no key; add one"
    topic: str

    def __init__(self, *, topic: str) -> None:
        super().__init__(topic=topic)
        self.records: list[int] = []  # Indexes of the records without a key.
