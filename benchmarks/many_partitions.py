"""What a topic with thousands of partitions takes, and what other clients notice of it.

    python -m benchmarks.many_partitions 10000        the table of docs/benchmarks/scaling.md

While one client creates the topic, a group on all its partitions, and the first message of each, a second one
publishes to another topic and a third one asks for the list of topics; both every five milliseconds.

Then the same topic with the durability ``os``, whose files are flushed later: how long a start takes after a
stop that had no time to flush them, and after a crash.
"""

import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from statistics import median

import penstock
from benchmarks.durable import scratch
from benchmarks.processes import ServerProcess
from penstock.client.sync import RemoteBroker

PAUSE_S = 0.005
BATCH = 500  # Partitions that a publish writes to.
SETTINGS = {"PENSTOCK_BROKER__PARTITIONS_MAX": "200000"}
QUICK_STOP = {"PENSTOCK_SERVER__STOP_TIMEOUT": "1s"}
STALLS = "penstock_event_loop_stalls_total"


class Beside:
    """The other clients, and how long each of their requests took, in milliseconds."""

    def __init__(self, url: str) -> None:
        self.took: dict[str, list[float]] = {"publish": [], "ask": []}
        self._ended = threading.Event()
        calls: dict[str, Callable[[RemoteBroker], object]] = {
            "publish": lambda broker: broker.publish("other", b"x"),
            "ask": lambda broker: broker.topics(),
        }
        self._threads = [
            threading.Thread(target=self._run, args=(url, call, self.took[name]))
            for name, call in calls.items()
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, url: str, call: Callable[[RemoteBroker], object], took: list[float]) -> None:
        with penstock.connect(url, request_timeout="120s") as broker:
            while not self._ended.is_set():
                began = time.perf_counter()
                call(broker)
                took.append((time.perf_counter() - began) * 1000)
                time.sleep(PAUSE_S)

    def end(self) -> None:
        """Let them finish what they are at."""
        self._ended.set()
        for thread in self._threads:
            thread.join()


def row(name: str, work: Callable[[], object], beside: Beside) -> None:
    """Print how long something took, and the others meanwhile."""
    begun = {kind: len(took) for kind, took in beside.took.items()}
    started = time.perf_counter()
    work()
    seconds = time.perf_counter() - started
    time.sleep(0.3)  # So that a request that waited is among them.
    cells = [f"{seconds:.1f} s"]
    for kind in ("publish", "ask"):
        some = beside.took[kind][begun[kind] :] or [0.0]
        cells += [f"{median(some):.1f} ms", f"{max(some):.0f} ms"]
    print("| " + " | ".join([name, *cells]) + " |", flush=True)


def publish(broker: RemoteBroker, topic: str, count: int) -> None:
    """A message to each partition."""
    for first in range(0, count, BATCH):
        numbers = range(first, min(first + BATCH, count))
        broker.publish_batch(topic, [penstock.Message(b"x", partition=number) for number in numbers])


def stalls(server: ServerProcess) -> str:
    """How often the event loop of a server stood still for more than 50 ms."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics") as answer:
        text: str = answer.read().decode()
    [line] = [line for line in text.splitlines() if line.startswith(f"{STALLS} ")]
    return line.removeprefix(f"{STALLS} ").removesuffix(".0")


def single(name: str, seconds: float) -> None:
    """Print how long something took while nobody else was served."""
    print(f"| {name} | {seconds:.1f} s | | | | |", flush=True)


def measure(count: int) -> None:
    """One topic of so many partitions, from its creation to its end."""
    print("| | took | publish to another topic, median | slowest | list topics, median | slowest |")
    print("|---|---|---|---|---|---|")
    with scratch() as directory:
        with ServerProcess(f"{directory}/data", SETTINGS, http=True) as server:
            with penstock.connect(server.url, request_timeout="600s") as broker:
                broker.create_topic("other", partitions=1)
                beside = Beside(server.url)
                time.sleep(0.5)
                row("nothing", lambda: time.sleep(2), beside)
                row("create the topic", lambda: broker.create_topic("large", partitions=count), beside)
                row("a group on all of them", lambda: broker.create_group("large", "workers"), beside)
                row("the first message of each", lambda: publish(broker, "large", count), beside)
                beside.end()
            memory_mb, stalled = server.resident_mb(), stalls(server)
            stopping = time.perf_counter()
        single("stop", time.perf_counter() - stopping)
        with ServerProcess(f"{directory}/data", SETTINGS, http=True) as server:
            single("start", server.ready_seconds)
            with penstock.connect(server.url, request_timeout="600s") as broker:
                beside = Beside(server.url)
                time.sleep(0.5)
                row("delete the topic", lambda: broker.delete_topic("large"), beside)
                beside.end()
            stalled += f", {stalls(server)} after the start"
    measure_unflushed(count)
    print(f"\nmemory: {memory_mb:.0f} MB; stalls of the event loop above 50 ms: {stalled}")


def measure_unflushed(count: int) -> None:
    """Starts that find files which were not flushed."""
    with scratch() as directory:
        for settings, name in ((SETTINGS | QUICK_STOP, "stop within 1 s"), (SETTINGS, "kill")):
            with ServerProcess(f"{directory}/data", settings) as server:
                with penstock.connect(server.url, request_timeout="600s") as broker:
                    broker.create_topic("unflushed", partitions=count, durability="os", exist_ok=True)
                    publish(broker, "unflushed", count)
                stopping = time.perf_counter()
                if name == "kill":
                    server.kill()
            if name != "kill":
                single("stop with unflushed files, in 1 s", time.perf_counter() - stopping)
            with ServerProcess(f"{directory}/data", SETTINGS) as server:
                single(f"start after that {name}", server.ready_seconds)
                with penstock.connect(server.url, request_timeout="600s") as broker:
                    found = sum(broker.offsets("unflushed", "latest").values())
                stopping = time.perf_counter()
            single("stop", time.perf_counter() - stopping)
            print(f"messages found: {found}", file=sys.stderr)


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
