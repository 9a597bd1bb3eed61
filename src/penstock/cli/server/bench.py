"""``penstock bench``: measures throughput and latency of a server in a few seconds.

    publish    batches, one after the other, each acknowledged before the next
    consume    receive and ack of the published messages, in batches
    latency    from the publish call until a waiting consumer has the message, one at a time

It uses its own topic and deletes it afterwards.  One client and one connection show what a single program
gets, not the capacity of the server.  ``make bench`` runs the real benchmarks.
"""

import secrets
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli import connecting, screen
from penstock.cli.arguments import SERVER, OutputOption, Server, maybe
from penstock.cli.commands import example, new_app
from penstock.cli.progress import ProgressBar
from penstock.cli.screen import Column
from penstock.cli.text import counted, rounded_duration, rounded_size
from penstock.clock import stopwatch_ns
from penstock.config.broker import Durability
from penstock.errors import PenstockError, UnavailableError

if TYPE_CHECKING:
    from penstock.api.broker import Broker

app = new_app()

GROUP: Final = "bench"
RECEIVE_WAIT: Final = "10s"  # A message that does not come within this is a failure.
COLUMNS: Final = (
    Column("test"),
    Column("messages", right=True),
    Column("messages/s", right=True),
    Column("bytes/s", right=True),
    Column("p50", right=True),
    Column("p99", right=True),
)


@app.command(
    epilog=example("penstock bench", "penstock bench --messages 1000000 --size 200 --durability memory")
)
def bench(
    messages: Annotated[
        int, typer.Option("--messages", "-n", metavar="N", min=1, help="Messages to publish.")
    ] = 100_000,
    size: Annotated[int, typer.Option(metavar="BYTES", min=8, help="Bytes of each value.")] = 100,
    batch: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Messages in a batch.")] = 1000,
    samples: Annotated[int, typer.Option(metavar="N", min=1, help="Messages to measure latency with.")] = 200,
    durability: Annotated[
        Durability | None, typer.Option(help="Durability of the topic; default: the server's.")
    ] = None,
    partitions: Annotated[int, typer.Option(metavar="N", min=1, help="Partitions of the topic.")] = 1,
    output: OutputOption = "table",
    server: Server = SERVER,
) -> None:
    """Measure publish and consume throughput, and latency, on a temporary topic."""
    topic = f"bench-{secrets.token_hex(4)}"
    with connecting.connected(server, progress=False) as broker:
        broker.create_topic(topic, **maybe(partitions=partitions, durability=durability))
        try:
            durability = broker.describe_topic(topic).settings.durability
            with ProgressBar("measuring", total=2 * messages + samples) as progress:
                results = [
                    publish(broker, topic, messages, size, batch, progress),
                    consume(broker, topic, messages, size, batch, progress),
                    latency(broker, topic, samples, size, progress),
                ]
        finally:
            broker.delete_topic(topic)
    if output == "json":
        screen.documents(results)
        return
    screen.table(COLUMNS, map(_row, results))
    screen.note(f"{size} bytes each, batches of {batch:,}, durability {durability}; p50 and p99 of a call")


Result = dict[str, Any]


def publish(broker: "Broker", topic: str, count: int, size: int, batch: int, progress: ProgressBar) -> Result:
    """Publish in batches, one after the other."""
    value = secrets.token_bytes(size)
    times_ms = []
    for some in _batches(count, batch):
        start_ns = stopwatch_ns()
        broker.publish_batch(topic, [value] * some)
        times_ms.append((stopwatch_ns() - start_ns) / 1e6)
        progress.advance(some)
    return _result("publish", count, times_ms) | _rates(count, size, times_ms)


def consume(broker: "Broker", topic: str, count: int, size: int, batch: int, progress: ProgressBar) -> Result:
    """Receive and ack all of it."""
    times_ms = []
    left = count
    with broker.consumer(topic, group=GROUP) as consumer:
        while left > 0:
            start_ns = stopwatch_ns()
            received = consumer.receive(max_messages=batch, wait=RECEIVE_WAIT)
            if not received:
                raise UnavailableError(
                    reason=f"{counted(left, 'message')} did not arrive within {RECEIVE_WAIT}"
                )
            consumer.ack(received)
            times_ms.append((stopwatch_ns() - start_ns) / 1e6)
            left -= len(received)
            progress.advance(len(received))
    return _result("consume", count, times_ms) | _rates(count, size, times_ms)


def latency(broker: "Broker", topic: str, count: int, size: int, progress: ProgressBar) -> Result:
    """Publish one by one while a consumer waits; each value holds the moment of its publish."""
    arrived = threading.Semaphore(0)
    times_ms: list[float] = []

    def work() -> None:
        try:
            with broker.consumer(topic, group=GROUP) as consumer:
                ready.set()
                for _ in range(count):
                    [message] = consumer.receive(wait=RECEIVE_WAIT)
                    times_ms.append((stopwatch_ns() - int.from_bytes(message.value[:8])) / 1e6)
                    message.ack()
                    arrived.release()
        except (PenstockError, ValueError):
            arrived.release(count)  # The publisher sees that something is missing.
        finally:
            ready.set()

    ready = threading.Event()
    worker = threading.Thread(target=work, name="bench consumer", daemon=True)
    worker.start()
    ready.wait()
    padding = bytes(size - 8)
    for _ in range(count):
        broker.publish(topic, stopwatch_ns().to_bytes(8) + padding)
        arrived.acquire()
        progress.advance(1)
    worker.join()
    if len(times_ms) < count:
        raise UnavailableError(reason="a message did not reach its consumer")
    return _result("latency", count, times_ms)


def _batches(count: int, batch: int) -> Iterator[int]:
    while count > 0:
        yield min(batch, count)
        count -= batch


def _result(what: str, count: int, times_ms: list[float]) -> Result:
    ordered = sorted(times_ms)
    return {
        "what": what,
        "messages": count,
        "p50_ms": round(ordered[len(ordered) // 2], 3),
        "p99_ms": round(ordered[len(ordered) * 99 // 100], 3),
    }


def _rates(count: int, size: int, times_ms: list[float]) -> Result:
    total_s = sum(times_ms) / 1000
    return {
        "messages_per_second": round(count / total_s, 1),
        "bytes_per_second": round(count * size / total_s, 1),
    }


def _row(result: Result) -> list[object]:
    rates = ["", ""]
    if "messages_per_second" in result:
        rates = [f"{result['messages_per_second']:,.0f}", rounded_size(result["bytes_per_second"])]
    times = [rounded_duration(result[name]) for name in ("p50_ms", "p99_ms")]
    return [result["what"], f"{result['messages']:,}", *rates, *times]
