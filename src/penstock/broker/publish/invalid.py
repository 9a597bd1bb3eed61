"""Invalid messages of topics with ``validation = "dead-letter"``: they become dead letters at once.

    source partition    journal: "publish these letters"     then its log: the batch without their records
    dead-letter topic   <── the partition's outbox

The offsets of invalid messages stay empty, so a letter has the place that its message would have had.  The
letters are in the journal before anything of the batch is in the log; of a producer that numbers its batches
also on the disk, since the repeat of a batch that is in the log is not looked at again.  A crash in between
makes letters without a message; when the producer sends the batch again, there is a second letter.

Letters that cannot be written yet wait in memory, and as soon as there are many (``WAITING_MAX``), invalid
messages are refused.

A letter that is redriven goes to all groups: none has failed with it.
"""

from typing import Final

from penstock.broker.publish.incoming import Invalid
from penstock.broker.publish.letters import build_letter, letters_settings, letters_topic
from penstock.broker.publish.outbox import NO_GROUP, decide
from penstock.broker.state import Partition, State, Topic
from penstock.broker.steps import Steps
from penstock.broker.topic.topics import Topics
from penstock.errors import QueueFull, SchemaMismatch
from penstock.model.failure import fingerprint
from penstock.schemas.values import ValueMismatch
from penstock.wire.headers import (
    ATTEMPTS,
    DEATH_REASON,
    ERROR,
    ERROR_CLASS,
    ERROR_FINGERPRINT,
    ERROR_MESSAGE,
    FAILED_GROUP,
    FIRST_FAILED_AT,
    LAST_FAILED_AT,
)

REASON: Final = "invalid value"
LETTERS_MAX: Final = 100  # Of one decision, which bounds the size of a journal batch.
# In a partition's outbox, while the letters' topic cannot be written: then invalid messages are refused.
WAITING_MAX: Final = 10_000
WAITING_BYTES_MAX: Final = 64 << 20


class InvalidMessages:
    def __init__(self, state: State, topics: Topics) -> None:
        self._state = state
        self._topics = topics

    def ensure(self, topic: Topic) -> Steps[None]:
        """Create the topic of the dead letters, if it is missing."""
        yield from self._topics.ensure(letters_topic(topic), letters_settings(topic))

    def bury(self, partition: Partition, invalid: list[Invalid], *, at_once: bool) -> None:
        """Decide that these, whose offsets stay empty, become dead letters.

        ``at_once``: the decision is on the disk before this returns.  The caller has a job drain the outbox.
        """
        topic = partition.topic
        target = self._state.topic(letters_topic(topic))
        _check_room(partition, target)
        for first in range(0, len(invalid), LETTERS_MAX):
            some = invalid[first : first + LETTERS_MAX]
            letters = [
                (
                    target,
                    build_letter(topic, partition.number, target, each.record, self._facts(each.finding)),
                )
                for each in some
            ]
            start, end = some[0].record.offset, some[-1].record.offset + 1
            decide(self._state, partition, NO_GROUP, [], letters, start, end, f"to {target.name}: {REASON}")
        assert partition.journal is not None, "it was written"
        if at_once and topic.settings.durability == "fsync":
            partition.journal.log.sync()

    def _facts(self, finding: ValueMismatch) -> dict[str, str]:
        now_ms = str(self._state.clock.wall_ms())
        error_class, message = SchemaMismatch.__name__, finding.text()
        return {
            ERROR: f"{error_class}: {message}",
            ERROR_CLASS: error_class,
            ERROR_MESSAGE: message,
            # By the place in the value and not what is there.
            ERROR_FINGERPRINT: fingerprint(error_class, finding.where),
            DEATH_REASON: REASON,
            FAILED_GROUP: "",
            ATTEMPTS: "0",
            FIRST_FAILED_AT: now_ms,
            LAST_FAILED_AT: now_ms,
        }


def _check_room(partition: Partition, target: Topic) -> None:
    """Refuse more letters while too many wait for their topic."""
    waiting = partition.outbox
    if len(waiting) >= WAITING_MAX:
        raise QueueFull(what=f"the outbox for topic {target.name!r}", limit=WAITING_MAX)
    if sum(len(output.batch) for output in waiting) >= WAITING_BYTES_MAX:
        raise QueueFull(what=f"the outbox for topic {target.name!r}, in bytes", limit=WAITING_BYTES_MAX)
