"""``penstock demo [directory]``: a short tour on a terminal, with a real broker on a real disk.

    publish   lease   nack and retry   dead letter   delay   priority   replay   trace

Every line is an event that has just happened, with the time since the start.  The line after ``>>>`` is the
Python code that caused the events below it.

The tour uses only a broker, a clock and a screen, so a test runs it in virtual time.  It waits with
``receive(wait=)``, and on a terminal it pauses between steps to leave time for reading.
"""

import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Annotated, Final

import typer

import penstock
from penstock.cli.commands import example, new_app
from penstock.cli.data import timeline
from penstock.cli.data.timeline import BOLD, COLOURS, DIM
from penstock.cli.screen import wants_colour
from penstock.clock import Clock, SystemClock
from penstock.version import version_line

PAUSE_S: Final = 0.45  # After each of the eight steps: long enough to see where one ends.
TOPIC: Final = "orders"
GROUP: Final = "shipping"
ERROR: Final = "van too small"
BACKOFF: Final = ["300 ms", "100 ms"]  # Waits before the second and the third attempt.
RECEIVE_WAIT: Final = "5s"  # Longer than any wait of the tour; reaching it would be a bug.


class Screen:
    """Lines of 80 columns, in colour or without."""

    def __init__(self, write: Callable[[str], object], *, colour: bool, pause: Callable[[], object]) -> None:
        self._write = write
        self._colour = colour
        self._pause = pause

    def paint(self, text: str, colour: int) -> str:
        """The text in a colour, if this screen has any."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colour else text

    def title(self, text: str, *more: str) -> None:
        self._write(self.paint(text, BOLD) + "\n")
        for line in more:
            self._write(line + "\n")

    def step(self, number: int, name: str, sentence: str, code: str) -> None:
        """A new step of the tour: its name, what it shows, and the code."""
        if number > 1:
            self._pause()
        self._write(f"\n{self.paint(f'{number} {name:<14}', BOLD)}  {sentence}\n")
        self._write(self.paint(f"  >>> {code}", DIM) + "\n")

    def line(self, elapsed_ms: int, event: str, identity: str, words: str) -> None:
        elapsed = self.paint(f"{elapsed_ms / 1000:8.3f} s", DIM)
        painted = self.paint(f"{event:<13}", COLOURS.get(event, BOLD))
        self._write(f"{elapsed}  {painted}  {identity:<14}  {words}".rstrip() + "\n")

    def timeline(self, trace: penstock.Trace) -> None:
        """A trace, as it is printed, with its events in their colours."""
        for line in timeline.lines(trace, self.paint):
            self._write(line + "\n")


class Tour:
    """The eight steps, on a broker that may have run them before."""

    def __init__(self, broker: penstock.Broker, clock: Clock, screen: Screen) -> None:
        self._broker = broker
        self._clock = clock
        self._screen = screen
        self._start_ms = clock.steady_ms()
        self._early_ms = clock.wall_ms()
        if TOPIC not in broker.topics():
            broker.create_topic(TOPIC)
        broker.create_group(TOPIC, GROUP, max_attempts=3, backoff=list(BACKOFF))
        broker.purge(TOPIC, GROUP)  # What an interrupted tour may have left.

    def run(self) -> None:
        with self._broker.consumer(TOPIC, group=GROUP, consumer_id="worker-1") as worker:
            self._publish()
            self._lease(worker)
            self._retry(worker)
            dead = self._dead_letter(worker)
            self._delay(worker)
            self._priority(worker)
        self._replay()
        self._trace(dead)

    def _said(self, event: str, identity: str, words: str) -> None:
        self._screen.line(self._clock.steady_ms() - self._start_ms, event, identity, words)

    def _next(self, worker: penstock.Consumer, words: str = "") -> penstock.ReceivedMessage:
        """Lease one message, wait for it if needed, and print it."""
        [message] = worker.receive(wait=RECEIVE_WAIT)
        self._said("leased", message.id, words or f"by worker-1, attempt {message.attempt}")
        return message

    def _publish(self) -> None:
        code = 'broker.publish("orders", b"two books", key="anna")'
        self._screen.step(1, "publish", "The receipt means that the message is on disk.", code)
        for key, value in (("anna", b"two books"), ("bert", b"one lamp"), ("carl", b"ten chairs")):
            receipt = self._broker.publish(TOPIC, value, key=key)
            self._said("published", receipt.id, f"{key}: {value.decode()}")

    def _lease(self, worker: penstock.Consumer) -> None:
        self._screen.step(
            2,
            "lease",
            "A consumer leases a message until it acks or nacks it.",
            "[message] = consumer.receive(); message.ack()",
        )
        message = self._next(worker, "by worker-1, attempt 1, for 30 s")
        message.ack()
        self._said("acked", message.id, "settled: never delivered again")

    def _retry(self, worker: penstock.Consumer) -> None:
        self._screen.step(
            3,
            "nack and retry",
            "A failed message is delivered again after a backoff.",
            'message.nack(error=ConnectionError("the lamp shop is closed"))',
        )
        message = self._next(worker)
        message.nack(error=ConnectionError("the lamp shop is closed"))
        self._said("nacked", message.id, f"ConnectionError; retry in {BACKOFF[0]}")
        other = self._next(worker, "by worker-1, meanwhile")
        other.nack(error=ValueError(ERROR))
        self._said("nacked", other.id, f"ValueError; retry in {BACKOFF[0]}")
        message = self._next(worker)
        message.ack()
        self._said("acked", message.id, "settled")

    def _dead_letter(self, worker: penstock.Consumer) -> str:
        self._screen.step(
            4,
            "dead letter",
            "After the last attempt (here the third): a dead letter.",
            'broker.dead_letters("orders"); broker.redrive("orders")',
        )
        for again in (True, False):
            message = self._next(worker)
            message.nack(error=ValueError(ERROR))
            outlook = f"retry in {BACKOFF[1]}" if again else "no attempts left"
            self._said("nacked", message.id, f"ValueError; {outlook}")
        letter = self._broker.dead_letters(TOPIC)[-1]
        self._said("dead-lettered", letter.source, f"to {letter.message.id}, with its error")
        self._broker.redrive(TOPIC)
        self._said("redriven", letter.message.id, f"to {TOPIC}, for the group {letter.group}")
        message = self._next(worker, "by worker-1, attempt 1 again")
        message.ack()
        self._said("acked", message.id, "settled: a larger van was found")
        return letter.source

    def _delay(self, worker: penstock.Consumer) -> None:
        code = 'broker.publish("orders", b"a reminder", delay="500ms")'
        self._screen.step(5, "delay", "It waits in the schedule until it is due.", code)
        accepted_ms = self._clock.wall_ms()
        receipt = self._broker.publish(TOPIC, b"a reminder", delay="500ms")
        self._said("scheduled", receipt.id, "due in 500 ms; can be cancelled")
        [message] = worker.receive(wait=RECEIVE_WAIT)
        self._said("published", message.id, f"{message.timestamp - accepted_ms} ms after it was accepted")
        message.ack()
        self._said("acked", message.id, "settled")

    def _priority(self, worker: penstock.Consumer) -> None:
        code = 'broker.publish("orders", b"...", priority="high")'
        self._screen.step(6, "priority", "Priorities are lanes of the log; the highest goes first.", code)
        for priority in ("low", "normal", "high"):
            receipt = self._broker.publish(TOPIC, f"a {priority} one".encode(), priority=priority)
            self._said("published", receipt.id, f"priority {priority}")
        messages = worker.receive(max_messages=3)
        for message in messages:
            self._said("leased", message.id, f"priority {message.priority}")
        worker.ack(messages)
        self._said("acked", f"{len(messages)} messages", "settled by one call")

    def _replay(self) -> None:
        code = 'broker.seek("orders", "audit", datetime(...))'
        self._screen.step(7, "replay", "An ack deletes nothing: any group can go back in time.", code)
        with self._broker.consumer(TOPIC, group="audit", consumer_id="auditor") as auditor:
            self._broker.seek(TOPIC, "audit", self._early_ms / 1000)
            messages = auditor.receive(max_messages=100)
            self._said("leased", f"{len(messages)} messages", "by the group audit")
            auditor.ack(messages)
        lag = self._broker.describe_group(TOPIC, "audit").lag
        self._said("acked", f"{len(messages)} messages", f"audit's lag is {lag}")

    def _trace(self, identity: str) -> None:
        code = f'print(broker.trace("{identity}"))'
        self._screen.step(8, "trace", "The journal records every event of every message.", code)
        self._screen.timeline(self._broker.trace(identity))


app = new_app()


@app.command(epilog=example("penstock demo", "penstock demo ./data"))
def demo(
    directory: Annotated[
        str | None,
        typer.Argument(metavar="DIRECTORY", help="Directory to keep the data in; default: a temporary one."),
    ] = None,
) -> None:
    """A short tour with an embedded broker on disk."""
    terminal = sys.stdout.isatty()
    screen = Screen(
        sys.stdout.write,
        colour=wants_colour(),
        pause=(lambda: threading.Event().wait(PAUSE_S)) if terminal else (lambda: None),
    )
    if directory is not None:
        _run_in(directory, screen, f"The data is kept in {directory}; each topic is a directory.")
        return
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as temporary:
        _run_in(temporary, screen, "The data was deleted; penstock demo DIRECTORY keeps it.")


def _run_in(directory: str, screen: Screen, ending: str) -> None:
    screen.title(
        f"{version_line()}: a durable log you can work like a queue",
        "An embedded broker on disk. Times are seconds since the start.",
    )
    with penstock.open(directory) as broker:
        Tour(broker, SystemClock(), screen).run()
    screen.title(
        "\nNext",
        "  docs/README.md       an overview, and all pages",
        "  examples/            small programs, from a first queue to your own tests",
        "  docs/guarantees.md   the guarantees, and their limits",
        f"  {ending}",
    )
