"""The journal of one partition: every delivery decision of all its groups, in order.

    note(event) ... note(event)      buffered
    flush()                          one record batch with all of them, appended to the journal's log
    snapshot                         the state up to an offset of the journal, so that replay is short

A lease is only buffered and written with the next settlement.  A settlement is
flushed before it is applied to the state machine, so that on a full disk the caller
gets an error and nothing has changed.  The journal is kept as long as the messages
it describes, because it is also their trace.

Cost: one record of about 25 bytes per lease and per settlement, however many
messages the range has.  The snapshot is one file, replaced atomically, and
checked by a CRC; a damaged one is ignored and the journal is replayed from
its start.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec
from crc32c import crc32c

from penstock.clock import Clock
from penstock.delivery import events
from penstock.delivery.events import AnyEvent
from penstock.errors import CorruptionError, PenstockError
from penstock.log.files import Files
from penstock.log.log import Log, LogConfig
from penstock.wire.records import BatchBuilder

SNAPSHOT_VERSION: Final = 1
SEGMENT_BYTES: Final = 16 * 1024 * 1024  # Small, so that retention of the journal is fine-grained.
PENDING_MAX: Final = 1000  # Events; then they are written even if nothing waits for them.
READ_RECORDS: Final = 10_000  # Replayed at a time, which bounds memory.


class Snapshot(NamedTuple):
    end: int  # The journal's, and ...
    written: int  # ... its ``log.written``, when it was taken.
    data: bytes


class Journal:
    """Writes and reads back the delivery decisions of one partition."""

    def __init__(self, files: Files, directory: str, durability: Any, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._path = f"{directory}/snapshot"
        self.log = Log.open(files, directory, LogConfig(segment_bytes=SEGMENT_BYTES, durability=durability))
        self.snapshot_written = 0  # log.written at the last snapshot.
        self.snapshot_end = -1  # Up to this offset the snapshot holds; -1 if there is none.
        self._lazy = durability == "memory"
        self._pending: list[tuple[int, bytes]] = []

    @property
    def pending(self) -> int:
        """Events noted and not yet written."""
        return len(self._pending)

    def note(self, event: AnyEvent, now_ms: int) -> None:
        """Remember an event for the next flush.

        None is ever dropped: replay redelivers the messages of a lease only if the journal has every lease.
        """
        self._pending.append((now_ms, events.encode(event)))
        if len(self._pending) % PENDING_MAX == 0:
            with suppress(PenstockError):  # A full disk: it stays noted, and ``make_room`` says so.
                self.flush()

    def make_room(self) -> None:
        """Write what was noted if it is much, before more is leased; raises while that is impossible."""
        if len(self._pending) >= PENDING_MAX:
            self.flush()

    def commit(self, decisions: list[AnyEvent], now_ms: int) -> None:
        """Write these decisions now (with all that was noted), or raise and forget just them."""
        mark = len(self._pending)
        for event in decisions:
            self._pending.append((now_ms, events.encode(event)))
        if self._lazy and len(self._pending) < PENDING_MAX:
            return  # In memory nothing survives a crash, so writing early would buy nothing.
        try:
            self.flush()
        except PenstockError:
            del self._pending[mark:]
            raise

    def flush(self) -> None:
        """Append everything that was noted, as one batch."""
        if not self._pending:
            return
        # Decisions are timed by the steady clock; a trace, beside the log's records, by the wall's.
        step_ms = self._clock.wall_ms() - self._clock.steady_ms()
        base = max(self._pending[0][0] + step_ms, self.log.last_timestamp)
        latest = base
        builder = BatchBuilder()
        for time_ms, data in self._pending:
            latest = max(latest, time_ms + step_ms)
            builder.add(None, data, [], latest - base)
        self.log.append(builder.build(base, latest))
        self._pending = []

    def events(self, offset: int) -> Iterator[tuple[int, int, AnyEvent]]:
        """(offset, time, event) of everything written at or after ``offset``."""
        position = max(offset, self.log.start)
        while position < self.log.end:
            records = self.log.records(position, min(position + READ_RECORDS, self.log.end))
            for record in records:
                yield record.offset, record.timestamp, self._event(record.offset, record.value)
            position = min(position + READ_RECORDS, self.log.end)

    def _event(self, offset: int, value: bytes | None) -> AnyEvent:
        try:
            return events.decode(value or b"")
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CorruptionError(
                path=self.log.path, position=offset, why=f"not a journal event: {error}"
            ) from None

    def save_snapshot(self, state: dict[str, Any]) -> None:
        """Replace the snapshot by ``state``, which holds up to the journal's end."""
        self.install(self.snapshot(state))

    def snapshot(self, state: dict[str, Any]) -> Snapshot:
        """A snapshot of ``state``, which holds up to the journal's end; to be installed now or later."""
        assert not self._pending, "flush before a snapshot"
        body = msgspec.msgpack.encode({**state, "version": SNAPSHOT_VERSION, "journal_offset": self.log.end})
        return Snapshot(self.log.end, self.log.written, crc32c(body).to_bytes(4, "big") + body)

    def install(self, taken: Snapshot) -> None:
        self._files.write_file(self._path, taken.data)
        self.snapshot_written = taken.written
        self.snapshot_end = taken.end

    def check_whole(self) -> None:
        """Check that a journal without a snapshot reaches back to its beginning."""
        if self.log.start > 0:
            why = "it is missing or damaged, and stands for the trimmed beginning of the journal; restore it"
            raise CorruptionError(path=self._path, position=0, why=why)

    def load_snapshot(self) -> dict[str, Any] | None:
        """The last snapshot, or None if there is no valid one."""
        if not self._files.exists(self._path):
            return None
        data = self._files.read_file(self._path)
        if len(data) <= 4 or crc32c(data[4:]) != int.from_bytes(data[:4], "big"):
            return None
        state: dict[str, Any] = msgspec.msgpack.decode(data[4:])
        if state.get("version") != SNAPSHOT_VERSION:
            return None
        self.snapshot_end = state["journal_offset"]
        return state

    def close(self) -> None:
        """Write what was noted, and close the log."""
        self.flush()
        self.log.close()
