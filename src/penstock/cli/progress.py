"""A progress bar on stderr for commands that take longer than two seconds.

    with Progress("publishing", total=size, unit="bytes") as progress:
        progress.advance(1000)

It is shown only on a terminal and is removed at the end.  Without a total it shows activity, the amount done
and the elapsed time.  A command without its own bar gets one from ``connecting``.
"""

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

SHOW_AFTER_S = 2.0  # Shorter waits need no progress.
Unit = Literal["messages", "bytes", ""]


class ProgressBar:
    """A bar that appears when the command takes long."""

    def __init__(
        self, title: str, *, total: int | None = None, unit: Unit = "messages", wanted: bool = True
    ) -> None:
        self._title = title
        self._wanted = wanted
        self._total = total
        self._unit: Unit = unit
        self._done = 0
        self._lock = threading.Lock()  # The timer's thread makes the bar, the command's moves it.
        self._bar: Bar | None = None
        self._task: Any = None
        self._timer = threading.Timer(SHOW_AFTER_S, self._show)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if self._wanted and sys.stderr.isatty():
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._total = -1  # Too late for the timer.
            if self._bar is not None:
                self._bar.stop()

    @property
    def waiting(self) -> bool:
        """Whether the bar may still appear."""
        return self._timer.is_alive()

    def advance(self, amount: int) -> None:
        """Add to the amount done."""
        self._done += amount
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done)

    def _show(self) -> None:
        with self._lock:
            if self._total == -1:
                return
            self._bar = _bar(self._total is not None, self._unit)
            self._task = self._bar.add_task(self._title, total=self._total, completed=self._done)
            self._bar.start()


def _bar(measured: bool, unit: Unit) -> "Bar":
    from rich import progress
    from rich.console import Console

    columns: list[Any] = [progress.SpinnerColumn("line"), progress.TextColumn("{task.description}")]
    if measured:
        columns += [progress.BarColumn(30), progress.TaskProgressColumn()]
    if unit == "bytes":
        columns.append(progress.DownloadColumn())
    elif unit:
        columns.append(progress.TextColumn("{task.completed:,} " + unit))
    columns.append(progress.TimeRemainingColumn() if measured else progress.TimeElapsedColumn())
    return progress.Progress(*columns, console=Console(stderr=True), transient=True)
