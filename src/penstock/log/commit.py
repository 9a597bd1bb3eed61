"""Group commit: one sync for many appends, over all logs of a broker.

A sync takes as long for a hundred batches as for one, so callers that need
durability wait for a round, and a round syncs every log with unsynced bytes:

    mark(log)      the log has unsynced bytes
    wait(log, n)   for threads: the first one leads, that is, runs the round itself, which saves
                   two thread switches; those that arrive meanwhile queue up
    kick()         for an event loop, which must not block: the disk thread queues up on its behalf,
                   and listeners are called after each round
    sync_here()    for an event loop that has measured short syncs, and has little to sync

        A  [== leads: syncs A ==]                      [== leads ...
        B      append, queue     [== leads: syncs B, C, D ==]
        C          append, queue ............................] returns
        D              append, queue ........................] returns

At the end of a round the callers whose bytes it covered return, and the first of the
others leads the next round; the rest keep waiting.  One round runs at a time.  A mark
made during a round is for the next one.  A log whose sync fails is ``failed``, which
its waiters raise; other logs are not affected.

A round is bounded, in logs and in time.  While thousands of logs are marked (a message on
every partition of a large topic), it takes in turn those that were marked last, so that a
publish to another topic does not wait for all of them, and those that were marked first, so
that each log gets its turn.  Logs that no caller waits for (``mark_later``) follow, for a shorter time.

What a round does is a ``CommitRound``: ``SyncRound`` syncs each log, and a cluster writes one
object with the new bytes of all of them.

The disk thread starts with the first kick and ends with ``close``.

The duration of each sync, and the number of callers that share it, are recorded for
the metrics, which costs some tenths of a microsecond per sync.
"""

import threading
from collections.abc import Callable
from itertools import zip_longest
from queue import SimpleQueue
from typing import Final, Protocol

from penstock.clock import stopwatch_ns
from penstock.errors import PenstockError
from penstock.log.log import Log
from penstock.model.histogram import Histogram

# From the cache of a drive to one that is dying.
SYNC_US: Final = (
    50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
)  # fmt: skip
ANSWERED: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
# Logs that one round syncs at most of those marked last and of those marked first.
ROUND_NEWEST_MAX: Final = 32
ROUND_OLDEST_MAX: Final = 32
ROUND_FEW_MAX: Final = 4  # So few are synced without looking at the clock.
ROUND_NS: Final = 20_000_000  # Then no further log is begun; a file that is new may take milliseconds.
LATER_NS: Final = 10_000_000  # The same for logs that no caller waits for.


class CommitRound(Protocol):
    """What the leader of a round does: it makes logs durable, or sets ``failed`` of those it cannot."""

    # Whether each log is synced by itself, and quickly.  Then a round is bounded, and an event loop may run
    # it in place.  Otherwise the round gets every marked log, and the disk thread runs it.
    local: bool
    sync_us: Histogram  # How long each write took.

    def commit(self, logs: list[Log]) -> None:
        """Make everything durable that these logs have when this is called.

        Called by one thread at a time, without the broker's lock, and may block.  A round whose logs belong
        together takes their slices under that lock, so that they are all of the same moment.
        """
        ...


class SyncRound:
    """Syncs one log after the other."""

    local = True

    def __init__(self) -> None:
        self.sync_us = Histogram(SYNC_US)

    def commit(self, logs: list[Log]) -> None:
        for log in logs:
            real = log.durable < log.written and log.config.durability != "memory"
            began_ns = stopwatch_ns()
            try:
                log.sync()
            except PenstockError:
                continue  # ``log.failed`` reports it to the operations that wait.
            if real:
                self.sync_us.note((stopwatch_ns() - began_ns) // 1000)


class _Waiter:
    """Someone who sleeps until the bytes are durable, or it is their turn to lead."""

    __slots__ = ("leads", "log", "wake", "written")

    def __init__(self, log: Log | None, written: int) -> None:
        self.log = log  # None: the disk thread, which only wants to lead.
        self.written = written
        self.leads = False
        self.wake = threading.Lock()
        self.wake.acquire()

    def content(self) -> bool:
        """Whether there is nothing left to wait for."""
        return self.log is not None and (self.log.durable >= self.written or self.log.failed is not None)


class GroupCommit:
    """Makes logs durable, many at a time."""

    def __init__(
        self, commit_round: CommitRound | None = None, time_ns: Callable[[], int] = stopwatch_ns
    ) -> None:
        # Called after every round by the thread that ran it, with no lock held.
        self.listeners: list[Callable[[], None]] = []
        self.round: CommitRound = SyncRound() if commit_round is None else commit_round
        self._time_ns = time_ns  # For the length of a round.
        self.answered = Histogram(ANSWERED)  # How many had waited for a round.
        self._dirty: dict[Log, None] = {}  # Changed by single dict operations only, so it needs no lock.
        self._later: dict[Log, None] = {}  # The same, for those that no caller waits for.
        self._guard = threading.Lock()  # Of the next two and of starting the thread; held for moments only.
        self._led = False  # Someone leads a round, or was just woken to.
        self._waiters: list[_Waiter] = []  # Empty if there is no leader.
        self._kicks: SimpleQueue[bool] = SimpleQueue()  # False: end.
        self._kicked = False  # There is a kick that the thread has not taken yet.
        self._disk_thread: threading.Thread | None = None

    def mark(self, log: Log) -> None:
        """``log`` has bytes that the next round is to sync."""
        self._dirty[log] = None

    def mark_later(self, log: Log) -> None:
        """Like ``mark``, for bytes that no caller waits for: they are synced after the others."""
        self._later[log] = None

    def defer(self, log: Log) -> None:
        """Sync a marked ``log`` after those that callers wait for."""
        self._later[log] = None
        self._dirty.pop(log, None)

    def wait(self, log: Log, written: int) -> None:
        """Return when the first ``written`` bytes of ``log`` are durable; raise ``log.failed`` if never."""
        while log.durable < written:
            if log.failed is not None:
                raise log.failed
            self.mark(log)  # The writer may have left that to the waiter.
            self._take_turn(_Waiter(log, written))

    def forget(self) -> None:
        """Drop all marks: the caller has no time left, and leaves the rest to the next start."""
        if self.round.local:
            self._dirty.clear()
            self._later.clear()

    def kick(self) -> None:
        """Have the disk thread run rounds until nothing is marked; returns at once."""
        if self._disk_thread is None:
            self._start()
        if not self._kicked:
            self._kicked = True
            self._kicks.put(True)

    def sync_here(self, logs_max: int, bytes_max: int) -> bool:
        """Run a round in the caller's thread, if there is no leader and little to sync.

        For an event loop on a quick disk: two thread switches take as long as the sync itself.
        The listeners are not called, because the caller knows.
        """
        dirty = list(self._dirty)
        if (
            not self.round.local
            or len(dirty) > logs_max
            or self._later
            or sum([log.written - log.durable for log in dirty]) > bytes_max
        ):
            return False
        with self._guard:
            if self._led:
                return False
            self._led = True
        try:
            self._commit(dirty)
        finally:
            self._hand_on(False)
        return True

    def close(self) -> None:
        """End the disk thread, after the rounds it was asked for."""
        with self._guard:
            thread, self._disk_thread = self._disk_thread, None
        if thread is not None:
            self._kicks.put(False)
            thread.join()

    def _start(self) -> None:
        with self._guard:
            if self._disk_thread is None:
                self._disk_thread = threading.Thread(target=self._run, name="penstock-disk", daemon=True)
                self._disk_thread.start()

    def _run(self) -> None:
        try:
            while self._kicks.get():
                self._kicked = False
                while self._dirty or self._later:
                    self._take_turn(_Waiter(None, 0))
        except BaseException:
            # A listener raised: a bug, which the interpreter reports.  The next kick starts a new thread.
            self._disk_thread = None
            raise

    def _take_turn(self, waiter: _Waiter) -> None:
        """Lead a round, now or when it is this waiter's turn; or return when another round has done it."""
        try:
            with self._guard:
                if self._led:
                    self._waiters.append(waiter)
                else:
                    self._led = waiter.leads = True
            if not waiter.leads:
                waiter.wake.acquire()
            if waiter.leads:
                self._sync_marked()
        finally:
            # Also after Ctrl-C: a turn that is not passed on would block all waiters.
            self._end_turn(waiter)
        if waiter.leads:
            for listener in self.listeners:
                listener()

    def _sync_marked(self) -> None:
        dirty = list(self._dirty)
        if not self.round.local:
            self._commit([*dirty, *self._later])
        elif len(dirty) <= ROUND_FEW_MAX:
            self._commit(dirty)
        else:
            half = len(dirty) // 2
            newest, oldest = dirty[half:][-ROUND_NEWEST_MAX:], dirty[:half][:ROUND_OLDEST_MAX]
            newest.reverse()
            in_turn = [log for pair in zip_longest(newest, oldest) for log in pair if log is not None]
            self._commit_within(ROUND_NS, in_turn)
        if self._later:
            self._commit_within(LATER_NS, list(self._later))

    def _commit_within(self, limit_ns: int, logs: list[Log]) -> None:
        """Commit one log after the other while there is time; the rest stays marked."""
        end_ns = self._time_ns() + limit_ns
        for log in logs:
            self._commit([log])
            if self._time_ns() > end_ns:
                break

    def _commit(self, logs: list[Log]) -> None:
        for log in logs:
            # The marks go first: one that comes during the round is for the next one.
            self._dirty.pop(log, None)
            self._later.pop(log, None)
        try:
            self.round.commit(logs)
        except BaseException:
            for log in logs:
                self.mark(log)
            raise

    def _end_turn(self, waiter: _Waiter) -> None:
        """Give up waiting, or the lead."""
        with self._guard:
            if not waiter.leads:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
                return
        self._hand_on(waiter.content())

    def _hand_on(self, leader_answered: bool) -> None:
        """A round is over: wake the waiters whose bytes are durable, and the next leader."""
        woken: list[_Waiter] = []
        with self._guard:
            waiting, self._waiters = self._waiters, []
            for other in waiting:
                (woken if other.content() else self._waiters).append(other)
            answered = len(woken) + leader_answered
            if answered:
                self.answered.note(answered)
            if self._waiters:
                following = self._waiters.pop(0)
                following.leads = True
                woken.append(following)
            else:
                self._led = False
        for other in woken:
            other.wake.release()
