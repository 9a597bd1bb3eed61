"""Group commit: many appends, one sync, over all logs of a broker.

A sync takes as long for a hundred batches as for one, so whoever needs
durability waits for a round, and a round syncs every log that has something
to sync:

    mark(log)      it has bytes that are not durable
    wait(log, n)   a thread: the first one runs the round itself, in place, which saves two thread switches;
                   those who come meanwhile wait for it, and the first of them whose bytes it did
                   not cover runs the next, for all of them
    kick()         an event loop, which must not block: the disk thread runs the rounds
                   and the listeners hear of each

One round runs at a time.  A mark that comes during a round is for the next.
A log whose sync fails is ``failed``, which its waiters raise; other logs go on.

The disk thread starts with the first kick and ends with ``close``.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue

from penstock.errors import PenstockError
from penstock.log.log import Log


class GroupCommit:
    """Makes logs durable, many at a time."""

    def __init__(self) -> None:
        # Called after every round by the thread that ran it, with no lock held.
        self.listeners: list[Callable[[], None]] = []
        self._dirty: dict[Log, None] = {}  # Changed by single dict operations only, so it needs no lock.
        self._turn = threading.Condition()
        self._running = False  # A round is running; guarded by _turn.
        self._kicks: SimpleQueue[bool] = SimpleQueue()  # False: end.
        self._kicked = False  # There is a kick that the thread has not taken yet.
        self._thread: threading.Thread | None = None

    def mark(self, log: Log) -> None:
        """``log`` has bytes that the next round is to sync."""
        self._dirty[log] = None

    def wait(self, log: Log, written: int) -> None:
        """Return when the first ``written`` bytes of ``log`` are durable; raise ``log.failed`` if never."""
        while log.durable < written:
            if log.failed is not None:
                raise log.failed
            with self._turn:
                if self._running:
                    self._turn.wait_for(lambda: not self._running or log.durable >= written)
                    continue
                self._running = True
            self.mark(log)  # Whoever wrote may have left that to whoever waits.
            self._round()

    def kick(self) -> None:
        """Have the disk thread run rounds until nothing is marked; returns at once."""
        if self._thread is None:
            self._start()
        if not self._kicked:
            self._kicked = True
            self._kicks.put(True)

    def close(self) -> None:
        """End the disk thread, after the rounds it was asked for."""
        with self._turn:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._kicks.put(False)
            thread.join()

    def _start(self) -> None:
        with self._turn:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock-disk", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self._kicks.get():
            self._kicked = False
            while self._dirty:
                with self._turn:
                    self._turn.wait_for(lambda: not self._running)
                    self._running = True
                self._round()

    def _round(self) -> None:
        """Sync what is marked; the caller has set ``_running``."""
        try:
            for log in list(self._dirty):
                # The mark goes first: one that comes during the sync is for the next round.
                self._dirty.pop(log, None)
                try:
                    log.sync()
                except PenstockError:
                    continue  # log.failed tells those who wait for it.
        finally:
            with self._turn:
                self._running = False
                self._turn.notify_all()
        for listener in self.listeners:
            listener()
