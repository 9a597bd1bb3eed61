"""Progress of a run: its counters, and the line on stderr.

    archive  1,204,551 records  412,300/s  lag 0.8 s  12 batches  3 files
    replay   ━━━━━━━━━━━━━━━╸━━━━━━  62 %  3,100,000 of 5,000,000 records  310,000/s  6 s left

On a terminal the line is updated in place; elsewhere it is printed every ``PLAIN_MS`` if
it has changed.

A pipeline calls ``expect`` if the total is known, and ``advance`` when something is done;
both from any thread.
"""

import sys
import threading
from collections import deque
from typing import Any, Final, TextIO

import msgspec

from penstock.clock import Clock
from penstock.model.info import PipelineRun

WINDOW_MS: Final = 10_000  # Rates are of so long.
PLAIN_MS: Final = 10_000


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is."""

    records: int = 0
    batches: int = 0
    files: int = 0
    late: int = 0  # Records that were set aside because they came too late.
    total: int | None = None  # Records there are to do; None: it is not known, or it never ends.
    lag_seconds: float | None = None  # Age of the oldest record that waits; None: it is not known.
    rows_per_second: float = 0.0
    progressed_ms: int = 0  # When something was last done.
    note: str = ""  # What else there is to say, in a few words.


class RunProgress:
    """Counts what a run does."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts = Counts()
        self._samples: deque[tuple[int, int]] = deque([(clock.steady_ms(), 0)])  # (when, records).

    def expect(self, records: int) -> None:
        """Set the total number of records."""
        self._change(total=records)

    def advance(
        self,
        *,
        records: int = 0,
        batches: int = 0,
        files: int = 0,
        late: int = 0,
        lag_seconds: float | None = None,
    ) -> None:
        """Add to the counts; ``lag_seconds``, if known, is the current lag."""
        counts = self._counts
        self._change(
            records=counts.records + records,
            batches=counts.batches + batches,
            files=counts.files + files,
            late=counts.late + late,
            lag_seconds=counts.lag_seconds if lag_seconds is None else lag_seconds,
            progressed_ms=self._clock.wall_ms(),
        )

    def note(self, text: str) -> None:
        """Set a short note, such as "compacting"."""
        self._change(note=text)

    def counts(self) -> Counts:
        """How far the run is, with the rate of the last seconds."""
        with self._lock:
            now_ms, records = self._clock.steady_ms(), self._counts.records
            while len(self._samples) > 1 and self._samples[1][0] <= now_ms - WINDOW_MS:
                self._samples.popleft()
            then_ms, then = self._samples[0]
            if now_ms > self._samples[-1][0]:
                self._samples.append((now_ms, records))
            rate = (records - then) * 1000 / max(now_ms - then_ms, 1)
            return msgspec.structs.replace(self._counts, rows_per_second=round(rate, 1))

    def _change(self, **changes: Any) -> None:
        with self._lock:
            self._counts = msgspec.structs.replace(self._counts, **changes)


def words(counts: "Counts | PipelineRun") -> list[str]:
    """The nonzero counts as text."""
    of = "" if counts.total is None else f" of {counts.total:,}"
    found = [f"{counts.records:,}{of} records", f"{counts.rows_per_second:,.0f}/s"]
    if counts.total and counts.rows_per_second and counts.records < counts.total:
        found.append(f"{(counts.total - counts.records) / counts.rows_per_second:,.0f} s left")
    if counts.lag_seconds is not None:
        found.append(f"lag {counts.lag_seconds:,.1f} s")
    found += [f"{count:,} {noun}" for count, noun in _parts(counts) if count]
    return [*found, counts.note] if counts.note else found


def _parts(counts: "Counts | PipelineRun") -> list[tuple[int, str]]:
    return [
        (counts.batches, "batch" if counts.batches == 1 else "batches"),
        (counts.files, "file" if counts.files == 1 else "files"),
        (counts.late, "late"),
    ]


class ProgressLine:
    """The line about one run on stderr; use it with ``with``."""

    def __init__(self, name: str, clock: Clock, out: TextIO | None = None) -> None:
        self._name = name
        self._clock = clock
        self._out = out or sys.stderr
        self._live: Any = None  # rich's, on a terminal.
        self._shown = ""
        self._shown_ms = clock.steady_ms()

    def __enter__(self) -> "ProgressLine":
        if self._out.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(file=self._out), auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, counts: Counts, *, last: bool = False) -> None:
        """Update the line; the last one stays."""
        text = "  ".join([self._name, *words(counts)])
        if self._live is not None and not last:
            self._live.update(self._drawn(counts, text), refresh=True)
            return
        now_ms = self._clock.steady_ms()
        if last or (text != self._shown and now_ms - self._shown_ms >= PLAIN_MS):
            self._shown, self._shown_ms = text, now_ms
            self._stop_live()
            print(text, file=self._out, flush=True)

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _drawn(self, counts: Counts, text: str) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        if not counts.total:
            return text
        row = Table.grid(padding=(0, 2, 0, 0))
        row.add_row(
            self._name,
            ProgressBar(total=counts.total, completed=counts.records, width=24),
            f"{counts.records * 100 // counts.total} %",
            "  ".join(words(counts)),
        )
        return row
