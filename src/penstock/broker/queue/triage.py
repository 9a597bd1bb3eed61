"""Dead letters by error: ten thousand of them are usually three bugs.

    dead letters, not yet redriven ──> by topic and fingerprint ──> the most frequent first

The fingerprint was computed where the error occurred (``failure.py``), and is in the
dead letter's headers.  Nothing is kept between two calls: dead letters are few compared
with messages, and a fresh count is never wrong after a redrive, retention or a crash.

Cost: every dead letter is read once, about 20 us each where compiled; the lock is
released now and then.  Memory: some kilobytes of headers for each fingerprint, of which
``ERRORS_MAX`` are distinguished in one call; the others are counted as
``OTHER_ERRORS``, one entry for each topic.
"""

from collections.abc import Iterator
from typing import Final

from penstock.broker.queue.dead_letters import DeadLetters
from penstock.broker.state import Partition, State, Topic
from penstock.broker.steps import GiveWay, Steps
from penstock.config.broker import DEAD_LETTER_SUFFIX
from penstock.errors import Closed
from penstock.model.info import OTHER_ERRORS, DeadLetterErrors
from penstock.wire.headers import (
    DEAD_LETTER_HEADERS,
    DEATH_REASON,
    ERROR,
    ERROR_CLASS,
    ERROR_FINGERPRINT,
    FAILED_GROUP,
    FIRST_FAILED_AT,
    LAST_FAILED_AT,
    SOURCE_OFFSET,
    SOURCE_PARTITION,
    SOURCE_TOPIC,
)

About = dict[str, bytes | None]  # The headers that burying has added.

ERRORS_MAX: Final = 1000  # A person reads ten; a thousand take some megabytes.


class Tally:
    """The dead letters of one topic with one fingerprint."""

    def __init__(self) -> None:
        self.count = 0
        self.first_ms = 1 << 62
        self.last_ms = -1
        self.groups: set[bytes] = set()
        self.newest = ""  # Its id, and what its headers say; the message itself may be large.
        self.about: About = {}

    def add(self, partition: Partition, offset: int, about: About) -> None:
        self.count += 1
        self.first_ms = min(self.first_ms, int(about[FIRST_FAILED_AT] or 0))
        self.groups.add(about[FAILED_GROUP] or b"")
        last_ms = int(about[LAST_FAILED_AT] or 0)
        if last_ms >= self.last_ms:
            self.last_ms = last_ms
            self.newest = f"{partition.topic.name}:{partition.number}:{offset}"
            self.about = about

    def summary(self, topic: str, fingerprint: str) -> DeadLetterErrors:
        about = {name: _text(value) for name, value in self.about.items()}
        return DeadLetterErrors(
            topic=topic,
            fingerprint=fingerprint,
            error_class=about[ERROR_CLASS],
            error=about[ERROR],
            reason=about[DEATH_REASON],
            groups=sorted(_text(group) for group in self.groups),
            count=self.count,
            first_seen_ms=self.first_ms,
            last_seen_ms=self.last_ms,
            dead_letter=self.newest,
            source=f"{topic}:{about[SOURCE_PARTITION]}:{about[SOURCE_OFFSET]}",
        )


class Triage:
    """Counts dead letters by error."""

    def __init__(self, state: State, dead_letters: DeadLetters) -> None:
        self._state = state
        self._dead_letters = dead_letters

    def errors(self, name: str | None) -> Steps[list[DeadLetterErrors]]:
        """The errors of one topic's dead letters, or of all topics'; the most frequent first."""
        tallies: dict[tuple[str, str], Tally] = {}
        only = None if name is None else self._state.topic(name).name.encode()
        for partition in self._dead_letter_partitions(name):
            for some in self._dead_letters.unredriven(partition):
                for record in some:
                    about = dict(record.headers[-len(DEAD_LETTER_HEADERS) :])
                    if only in (None, about[SOURCE_TOPIC]):
                        _tally(tallies, about).add(partition, record.offset, about)
                yield GiveWay()
                if self._state.closed:
                    raise Closed(what="broker")
                if partition.topic.deleted:
                    break
        errors = [tally.summary(*key) for key, tally in tallies.items()]
        return sorted(errors, key=lambda error: (-error.count, -error.last_seen_ms, error.topic))

    def _dead_letter_partitions(self, name: str | None) -> Iterator[Partition]:
        """The partitions with dead letters, also of topics that were deleted since."""
        if name is None:
            named = {topic.settings.dead_letter_topic for topic in self._state.topics.values()}
            names = sorted(
                known for known in self._state.topics if known in named or known.endswith(DEAD_LETTER_SUFFIX)
            )
        else:
            source: Topic = self._state.topic(name)
            names = [source.settings.dead_letter_topic or name + DEAD_LETTER_SUFFIX]
        for known in names:
            topic = self._state.topics.get(known)
            if topic is not None:
                self._state.readable(known)  # Raises if letters are being loaded.
            for partition in topic.partitions if topic is not None else []:
                if not partition.topic.deleted:  # As it may be by now.
                    yield partition


def _tally(tallies: dict[tuple[str, str], Tally], about: About) -> Tally:
    topic = _text(about[SOURCE_TOPIC])
    key = (topic, _text(about[ERROR_FINGERPRINT]))
    if key not in tallies and len(tallies) >= ERRORS_MAX:
        key = (topic, OTHER_ERRORS)
    tally = tallies.get(key)
    if tally is None:
        tally = tallies[key] = Tally()
    return tally


def _text(value: bytes | None) -> str:
    """The text of a header; clients may have written anything into it."""
    return (value or b"").decode("utf-8", "replace")
