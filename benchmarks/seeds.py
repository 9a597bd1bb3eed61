"""The benchmark tables of GoMQ and GoQueue, line by line, in small runs: ``python -m benchmarks.seeds``.

    in process      GoMQ's five lines: publish and consume one by one, in memory and on disk; fan-out to ten
    over loopback   GoQueue's ladder: requests of 1 to 1000 messages of 100 bytes, and 4 to 32 threads
    slow link       the same client over a link of 150 ms: netem on the loopback of a network namespace, or
                    where the kernel has no netem, a relay (``slow_link.py``)

Every line is measured for ``SECONDS`` and printed with the claim beside it.  A machine that does other things
at the same time gives lower numbers, so compare lines of one run only.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Final

import penstock
from benchmarks.slow_link import delayed
from penstock.version import version_line

SECONDS: Final = 2.0
SLOW_SECONDS: Final = 6.0
VALUE: Final = b"x" * 100
LARGE: Final = b"x" * 1024
THREADS: Final = {4: 1_140, 8: 1_293, 16: 1_031, 32: 1_035}
LADDER: Final = {1: 320, 10: 3_000, 50: 15_000, 100: 30_000, 200: 60_000, 500: 130_000, 1000: 220_000}
SLOW_LINK: Final = "--slow-link"

Work = Callable[[], int]  # Does something once, and says how many messages that were.


def measure(work: Work, seconds: float = SECONDS) -> tuple[float, float]:
    """Messages per second, and the time of a call at the 99th percentile in microseconds."""
    took: list[float] = []
    count = 0
    begun = before = time.perf_counter()
    while before - begun < seconds:
        count += work()
        now = time.perf_counter()
        took.append(now - before)
        before = now
    took.sort()
    return count / (before - begun), took[min(len(took) - 1, len(took) * 99 // 100)] * 1e6


def show(line: str, claim: str, found: tuple[float, float]) -> None:
    print(f"| {line} | {claim} | {found[0]:,.0f} msg/s, p99 {found[1]:,.0f} us |", flush=True)


def gomq() -> None:
    """The table of GoMQ, in one process and one thread as its calls are."""
    for place, claims in (
        ("memory", ("500,000, 2 us", "450,000, 3 us")),
        ("disk", ("50,000, 200 us", "45,000, 250 us")),
    ):
        with tempfile.TemporaryDirectory() as directory:
            with penstock.open(None if place == "memory" else directory) as broker:
                queue = broker.queue("orders")
                show(f"publish ({place})", claims[0], measure(lambda: bool(queue.publish(VALUE))))  # noqa: B023
                queue.publish_batch([VALUE] * 50_000)
                consumer = queue.subscribe("c")

                def consume() -> int:
                    [message] = consumer.receive(wait="1s")  # noqa: B023
                    message.ack()
                    return 1

                show(f"consume and ack ({place})", claims[1], measure(consume))
    with penstock.open() as broker:
        topic = broker.topic("news")
        subscribers = [topic.subscribe(f"s{number}") for number in range(10)]

        def fan_out() -> int:
            topic.publish(VALUE)
            for subscriber in subscribers:
                subscriber.ack(subscriber.receive())
            return 1

        show("fan-out to 10, each acked", "100,000, 50 us", measure(fan_out))


def ladder(url: str) -> None:
    """GoQueue's table: one client that waits for each answer, durable."""
    with penstock.connect(url) as broker:
        broker.create_topic("ladder", exist_ok=True, partitions=6)
        for size, claim in LADDER.items():
            batch: list[penstock.Message | bytes] = [VALUE] * size
            publish = lambda batch=batch: len(broker.publish_batch("ladder", batch))  # noqa: E731
            show(f"requests of {size}", f"~{claim:,}", measure(publish))
    for count, claim in THREADS.items():
        concurrent(url, f"{count} threads, one message at a time", f"~{claim:,}", count, 1, VALUE, SECONDS)


def concurrent(url: str, line: str, claim: str, count: int, size: int, value: bytes, seconds: float) -> None:
    found: list[tuple[float, float]] = []

    def one() -> None:
        with penstock.connect(url) as broker:
            found.append(measure(lambda: len(broker.publish_batch("ladder", [value] * size)), seconds))

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    show(line, claim, (sum(each[0] for each in found), max(each[1] for each in found)))


def slow_link(url: str) -> None:
    """GoQueue's remote client."""
    with penstock.connect(url) as broker:
        broker.create_topic("ladder", exist_ok=True, partitions=6)
        single = measure(lambda: bool(broker.publish("ladder", LARGE)), SLOW_SECONDS)
        show("150 ms: one message at a time", "6.3", single)
        batch = measure(lambda: len(broker.publish_batch("ladder", [LARGE] * 100)), SLOW_SECONDS)
        show("150 ms: requests of 100 x 1 KB", "112 to 331", batch)
    concurrent(url, "150 ms: 8 clients, requests of 100 x 1 KB", "152 to 571", 8, 100, LARGE, SLOW_SECONDS)


def served(work: Callable[[str], None]) -> None:
    """Run it against a server of its own."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "penstock", "serve", "--data", directory, "--native", "127.0.0.1:0"]
        command += [word for name in ("text", "status", "http", "kafka") for word in (f"--{name}", "off")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            facts = dict(line.split(" ", 1) for line in iter(server.stdout.readline, "ready\n"))
            try:
                work(facts["native"].strip())
            finally:
                server.terminate()
                server.wait()


def relayed(port: int) -> None:
    slow_link(f"penstock://127.0.0.1:{port}")


def over_netem() -> bool:
    """Measure the slow link in a network namespace, if the kernel can delay packets."""
    if not shutil.which("unshare") or not shutil.which("tc"):
        return False
    delay = "ip link set lo up && tc qdisc add dev lo root netem delay 75ms 2> /dev/null"
    command = ["unshare", "-rn", "sh", "-c", f'{delay} && exec "$0" -m benchmarks.seeds "$1"']
    return subprocess.run([*command, sys.executable, SLOW_LINK], check=False).returncode == 0


def main() -> None:
    if SLOW_LINK in sys.argv:
        served(slow_link)
        return
    print(f"{version_line()}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    gomq()
    served(ladder)
    if not over_netem():
        print("no netem here; the link is a relay")
        served(lambda url: delayed("127.0.0.1", int(url.rpartition(":")[2]), relayed))
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
