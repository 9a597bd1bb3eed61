"""Runs a pipeline: claims its name, does the work, reports progress, writes the final state.

    main thread      claim ──> pipeline.run(settings, context) ──> final state
    reporter         every second: progress line, stop requests      every five seconds: state

A run ends when its work is done, or soon after ``stopping`` was set by SIGINT, SIGTERM or
``penstock pipeline stop``; a second Ctrl-C ends it at once.  If the pipeline raises, the
state is ``failed`` with one sentence, however long Spark's message is.

Handling an unreachable broker is up to the pipeline; the reporter simply tries again.
"""

import logging
import os
import re
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.clock import Clock, SystemClock
from penstock.errors import PenstockError, PipelineFailed
from penstock.model.info import PipelineRun, PipelineState
from penstock.spark.lake import storage
from penstock.spark.pipelines import Pipeline
from penstock.spark.pipelines.run import states
from penstock.spark.pipelines.run.context import Context
from penstock.spark.pipelines.run.progress import ProgressLine, RunProgress
from penstock.spark.pipelines.run.settings import RunSettings
from penstock.spark.runtime.error_messages import first_sentence

if TYPE_CHECKING:
    from types import FrameType

    from penstock.api.broker import Broker

TICK_S: Final = 1.0
REPORT_MS: Final = 5000
ERROR_CHARACTERS_MAX: Final = 1000  # Of an error's sentence; Spark's may be long.

_OURS: Final = re.compile(r"penstock\.errors\.\w+: (.+)")  # In the text of an error from a Python worker.

logger = logging.getLogger("penstock.spark")


def run(
    pipeline: str,
    module: Pipeline,
    run_settings: RunSettings,
    settings: msgspec.Struct,
    broker: "Broker",
    *,
    servers: str,
    once: bool = False,
    clock: Clock | None = None,
) -> PipelineRun:
    """Run a pipeline to its end, and return its last state; raises ``PipelineFailed`` if it fails."""
    clock = clock or SystemClock()
    progress = RunProgress(clock)
    run_settings = msgspec.structs.replace(run_settings, name=run_settings.name or pipeline)
    begun = _begun(pipeline, run_settings, clock)
    offset = states.claim(broker, begun, clock.wall_ms())
    with _signals() as signals:
        context = Context(run_settings, broker, servers, clock, progress, once=once, started=signals.install)
        signals.stopping = context.stopping
        with ProgressLine(begun.name, clock) as line:
            reporter = Reporter(broker, begun, offset, context, line)
            with reporter:
                error = _work(module, settings, context)
            line.show(progress.counts(), last=True)
        _print(context.lines)
        return reporter.end(error)


def _begun(pipeline: str, run_settings: RunSettings, clock: Clock) -> PipelineRun:
    now_ms = clock.wall_ms()
    return PipelineRun(
        name=run_settings.name,
        pipeline=pipeline,
        run=uuid.uuid4().hex,
        state="starting",
        host=socket.gethostname(),
        pid=os.getpid(),
        master=run_settings.master,
        started_ms=now_ms,
        updated_ms=now_ms,
    )


def _work(module: Pipeline, settings: msgspec.Struct, context: Context) -> BaseException | None:
    """Run the pipeline and close its resources; the error is returned, because a state is written first."""
    try:
        return _failure(module, settings, context)
    except KeyboardInterrupt as error:
        return error
    finally:
        context.close()


def _failure(module: Pipeline, settings: msgspec.Struct, context: Context) -> Exception | None:
    """Run the pipeline; returns its error, if any."""
    try:
        module.run(settings, context)
    except Exception as error:
        logger.debug("the pipeline has failed", exc_info=error)
        end = context.end_of_jvm()
        if not end:
            return error
        if not context.stopping.is_set():
            return PipelineFailed(name=context.name, why=f"the JVM that runs Spark ended {end}")
        # All processes were signalled, Spark too; the next run repeats the batch.
    return None


def _print(lines: list[str]) -> None:
    for line in lines:
        print(line)  # noqa: T201 - the result; nothing else goes to stdout.
    sys.stdout.flush()


class Reporter:
    """Reports progress and checks for stop requests, in a thread while its block runs."""

    def __init__(
        self, broker: "Broker", begun: PipelineRun, offset: int, context: Context, line: ProgressLine
    ) -> None:
        self._broker = broker
        self._begun = begun
        self._offset = offset  # Where the next stop request may be.
        self._context = context
        self._line = line
        self._reported_ms = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._report_on, name="pipeline-reporter", daemon=True)

    def __enter__(self) -> "Reporter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def tick(self) -> None:
        """Report progress and check for stop requests; called every second."""
        self._line.show(self._context.progress.counts())
        try:
            self._look_for_stop()
            now_ms = self._context.clock.steady_ms()
            if now_ms - self._reported_ms >= REPORT_MS:
                states.report(self._broker, self._state(self._live_state()))
                self._reported_ms = now_ms
        except PenstockError as error:
            logger.debug("cannot report: %s", error)

    def end(self, error: BaseException | None) -> PipelineRun:
        """Write the last state; raises ``PipelineFailed`` for an error."""
        ended: PipelineState = "stopped" if self._context.stopping.is_set() else "done"
        why = "" if error is None else sentence_of(error)
        last = self._state("failed" if why else ended, why)
        try:
            states.report(self._broker, last)
        except PenstockError as lost:
            logger.debug("cannot report the end: %s", lost)
        if isinstance(error, KeyboardInterrupt | PenstockError):
            raise error
        if error is not None:
            raise PipelineFailed(name=last.name, why=why) from error
        return last

    def _report_on(self) -> None:
        while not self._ended.wait(TICK_S):
            self.tick()

    def _look_for_stop(self) -> None:
        asked, self._offset = states.stop_asked(self._broker, self._begun, self._offset)
        if asked and not self._context.stopping.is_set():
            self._context.progress.note("stopping")
            self._context.stopping.set()
            self._reported_ms = 0  # The person who asked is waiting for a response.

    def _live_state(self) -> PipelineState:
        return "stopping" if self._context.stopping.is_set() else "running"

    def _state(self, state: PipelineState, error: str = "") -> PipelineRun:
        counts = msgspec.structs.asdict(self._context.progress.counts())
        return msgspec.structs.replace(
            self._begun,
            state=state,
            error=error,
            updated_ms=self._context.clock.wall_ms(),
            sql_socket=self._context.sql_socket,
            **counts,
        )


def sentence_of(error: BaseException) -> str:
    """The message of an error on one line: that of a Penstock error in its chain, if there is one."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    text = str(error)
    if isinstance(error, PenstockError):
        return text
    if ours := _OURS.findall(text):
        return str(ours[-1])[:ERROR_CHARACTERS_MAX]
    if type(error).__module__.startswith(("pyspark.", "py4j.")):
        return first_sentence(text)
    name = type(error).__name__
    return f"{name}: {storage.sentence_of(error)}"[:ERROR_CHARACTERS_MAX] if text else name


class Signals:
    """SIGINT and SIGTERM ask the run to stop; a second SIGINT ends it where it is."""

    stopping: threading.Event | None = None

    def install(self) -> None:
        """Take the signals; again after Spark has started, because it takes SIGINT for itself."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._heard)

    def _heard(self, number: int, _frame: "FrameType | None") -> None:
        if self.stopping is None or (self.stopping.is_set() and number == signal.SIGINT):
            raise KeyboardInterrupt
        self.stopping.set()


@contextmanager
def _signals() -> Iterator[Signals]:
    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signals = Signals()
    signals.install()
    try:
        yield signals
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)
