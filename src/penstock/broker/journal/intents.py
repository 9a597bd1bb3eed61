"""The intent log of staged publishes: one log for each topic that needs it.

    Intent      application A publishes version 7: these staged ranges, under this producer id
    Finished    everything is in the topic
    Summary     everything known at that point, so that earlier records can be deleted

An intent in the log is the commit point of a staged publish: from then on it will be
finished, by this broker or by the next one that opens the directory.  Sequence numbers
make it safe to repeat.  An application has one producer id and numbers all records it
ever publishes to the topic, across partitions, consecutively; so a partition that has
seen a number has seen all earlier ones meant for it (``ProducerTable.check_internal``).

Invariants:

    I1  an application has one unfinished intent at most, and its versions rise
    I2  numbers rise and never wrap around: a new producer id is used before they would

Cost: one small record for each publish and one when it is finished; a summary is
written when the log is many times larger than it.  An application costs about 300
bytes of memory.  ``docs/format/intents.md`` has the records.
"""

from typing import Any, Final

import msgspec

from penstock.broker.journal.last_value import Compaction
from penstock.clock import Clock
from penstock.errors import CorruptionError
from penstock.log.files import Files
from penstock.log.log import Log, LogConfig
from penstock.wire.records import BatchBuilder, Record

APPLICATIONS_MAX: Final = 10_000  # Of a topic; the one that has not published for longest is forgotten.
NUMBERS_MAX: Final = 1 << 30  # Half of what sequence numbers have: of two, it is clear which came first.
SEGMENT_BYTES: Final = 1 << 20  # Outgrown so far, a summary takes the place of all that is written.

Ranges = list[tuple[int, int]]


class Intent(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """What an application publishes as one version."""

    application: str
    version: int
    producer_id: int
    sequence: int  # Of its first record.
    count: int  # Of records.
    time_ms: int  # Wall time of the decision; delays and times to live count from here.
    staged: dict[str, Ranges]  # By token: offsets of the staging log.


class Finished(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """All messages of an application's intent are published."""

    application: str


class Application(msgspec.Struct, array_like=True):
    """What is known of an application."""

    version: int = -1  # Its last one.
    producer_id: int = -1
    sequence: int = 0  # The next number.


class Summary(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The state of all applications, the least recent publish first."""

    applications: dict[str, Application]
    pending: list[Intent]


_decoder: Final = msgspec.msgpack.Decoder(Intent | Finished | Summary)
_encode: Final = msgspec.msgpack.Encoder().encode


class Intents:
    """The intents of one topic.  Not thread-safe: the caller holds a lock."""

    def __init__(self, topic: str, files: Files, directory: str, durability: Any, clock: Clock) -> None:
        self.topic = topic  # Its name.
        config = LogConfig(segment_bytes=SEGMENT_BYTES, durability=durability, strict=True)
        self.log = Log.open(files, directory, config)
        self.applications: dict[str, Application] = {}
        self.pending: dict[str, Intent] = {}  # By application.
        self.running: set[str] = set()  # Those of them that an operation is executing.
        self.resumed: set[str] = set()  # Those of them that an operation may have begun before.
        self.placed: dict[str, list[Log]] = {}  # Those whose batches are in these logs, and not durable yet.
        self.alarm_ms = -1
        self._clock = clock
        self._compaction = Compaction(self.log)
        self._summarised = 0  # log.written at the last summary.
        self._replay()

    def _replay(self) -> None:
        position = self.log.start
        while position < self.log.end:
            records = self.log.records(position, min(position + 1000, self.log.end))
            for record in records:
                self._apply(self._decoded(record))
            position = min(position + 1000, self.log.end)
        for found in self.log.damage.ranges:  # What is missing may have been promised, or published.
            self.log.abandon()
            raise CorruptionError(path=found.path, position=found.position, why=found.why)
        self.resumed = set(self.pending)

    def _decoded(self, record: Record) -> Intent | Finished | Summary:
        try:
            entry: Intent | Finished | Summary = _decoder.decode(record.value or b"")
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            why = f"not an intent: {error}"
            raise CorruptionError(path=self.log.path, position=record.offset, why=why) from None
        return entry

    def _apply(self, entry: Intent | Finished | Summary) -> None:
        match entry:
            case Intent():
                self.pending[entry.application] = entry
                self.applications.pop(entry.application, None)  # The latest is last.
                self.applications[entry.application] = Application(
                    entry.version, entry.producer_id, entry.sequence + entry.count
                )
            case Finished():
                self.pending.pop(entry.application, None)
            case Summary():
                self.applications = entry.applications
                self.pending = {intent.application: intent for intent in entry.pending}

    # What an application has done.

    def version(self, application: str) -> int | None:
        """The last version of an application; None if there is none, or it is forgotten."""
        known = self.applications.get(application)
        return None if known is None else known.version

    def numbers(self, application: str, count: int) -> tuple[int, int]:
        """Producer id and first number for its next ``count`` records; the id is -1 if it needs a new one."""
        known = self.applications.get(application)
        if known is None or known.sequence + count > NUMBERS_MAX:
            return -1, 0
        return known.producer_id, known.sequence

    # Writing.

    def begin(self, intent: Intent) -> None:
        """Write an intent; it is decided when the log is durable."""
        assert intent.application not in self.pending, "I1"
        assert intent.sequence + intent.count <= NUMBERS_MAX, "I2"
        self._append(intent)
        self._apply(intent)
        while len(self.applications) > APPLICATIONS_MAX:
            oldest = next(name for name in self.applications if name not in self.pending)
            del self.applications[oldest]

    def finish(self, intent: Intent) -> None:
        """Note that all messages of the intent are in the topic."""
        done = Finished(intent.application)
        self._append(done)
        self._apply(done)
        self.resumed.discard(intent.application)
        self._compaction.tidy()
        if self.log.written - self._summarised > SEGMENT_BYTES:
            self._summarise()

    def _append(self, entry: Intent | Finished) -> None:
        self.log.append(self._batch(entry))

    def _batch(self, entry: Intent | Finished | Summary) -> bytearray:
        builder = BatchBuilder()
        builder.add(None, _encode(entry), [])
        now_ms = max(self._clock.wall_ms(), self.log.last_timestamp)
        return builder.build(now_ms, now_ms)

    def _summarise(self) -> None:
        summary = Summary(self.applications, list(self.pending.values()))
        if self._compaction.compact([self._batch(summary)]):
            self._summarised = self.log.written
