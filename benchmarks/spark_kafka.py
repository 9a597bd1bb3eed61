"""Our data source beside Spark's own Kafka connector, on one server, in one session.

    make bench-spark                                    this and spark_bucket.py
    python -m benchmarks.spark_kafka 1024 --rounds 5    messages of 1 KB only

In each round both read a topic as a table, both read it as a stream in five
micro-batches, and both write the same Parquet rows to a new topic, in turn.  A round
before them, which does not count, warms both up.  Ours writes each row exactly once,
Kafka's at least once.
"""

import argparse
import sys
from collections.abc import Callable
from statistics import median
from typing import Final

from tests.spark import kafka_connector

from benchmarks.spark import TOPIC, Place, drained, filled, new_topic, seconds_of, session, to_nowhere

ROWS: Final = {100: 2_000_000, 1024: 400_000}  # By the size of a value.
ROUNDS: Final = 3
BATCHES: Final = 5
FORMATS: Final = ("penstock", "kafka")

Work = Callable[[Place, str], float]  # Of a format; its rows a second.


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="benchmarks.spark_kafka")
    parser.add_argument("bytes", nargs="*", type=int, default=sorted(ROWS))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--rows", type=int)
    options = parser.parse_args(arguments)
    if not kafka_connector.JARS.exists():
        sys.stderr.write("there are no jars; run scripts/install-spark-kafka\n")
        return 1
    kafka_connector.session("local[2]")  # From now on that of this process.
    sys.stdout.write("| | penstock | Spark's Kafka connector | ratio |\n|---|---|---|---|\n")
    for size in options.bytes:
        for line in measured(size, options.rows or ROWS[size], options.rounds):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    return 0


def measured(value_bytes: int, rows: int, rounds: int) -> list[str]:
    """A line of the table for each kind of work."""
    with filled(rows, value_bytes) as place:
        found: dict[str, list[dict[str, float]]] = {name: [] for name in WORK}
        for _ in range(rounds + 1):
            for name, work in WORK.items():
                found[name].append({each: work(place, each) for each in FORMATS})
    return [_line(f"{name}, {rows:,} x {value_bytes} B", each[1:]) for name, each in found.items()]


def _line(name: str, rounds: list[dict[str, float]]) -> str:
    columns = [
        f"{median(values):,.0f} ({min(values):,.0f} - {max(values):,.0f})"
        for values in ([each[one] for each in rounds] for one in FORMATS)
    ]
    ratio = median(each["penstock"] / each["kafka"] for each in rounds)
    return f"| {name} | {columns[0]} | {columns[1]} | {ratio:.2f} |"


def _server(place: Place, kind: str) -> dict[str, str]:
    """Where a format finds the server."""
    if kind == "kafka":
        return {"kafka.bootstrap.servers": place.server.kafka}
    return {"servers": place.server.url}


def _topic(place: Place, kind: str) -> dict[str, str]:
    """All of the topic; our format has Kafka's names of these options, too."""
    return _server(place, kind) | {"subscribe": TOPIC, "startingOffsets": "earliest"}


def read(place: Place, kind: str) -> float:
    """The topic as a table, to a sink that does nothing."""
    table = session().read.format(kind).options(**_topic(place, kind)).load()
    return place.count / seconds_of(to_nowhere(table))


def stream(place: Place, kind: str) -> float:
    """The topic as a stream, to a sink that does nothing; without the first micro-batch."""
    reader = session().readStream.format(kind).options(**_topic(place, kind))
    progress = drained(reader.option("maxOffsetsPerTrigger", place.count // BATCHES).load(), place)[1:]
    milliseconds: int = sum(each["durationMs"]["triggerExecution"] for each in progress)
    rows: int = sum(each["numInputRows"] for each in progress)
    return rows / (milliseconds / 1000)


def write(place: Place, kind: str) -> float:
    """Parquet into a new topic."""
    topic = new_topic(place)
    values = place.files().select("value")
    writer = values.write.format(kind).options(**_server(place, kind)).option("topic", topic)
    speed = place.count / seconds_of(writer.mode("append").save)
    assert place.broker.describe_topic(topic).messages == place.count, "each once"
    place.broker.delete_topic(topic)
    return speed


WORK: Final[dict[str, Work]] = {"read": read, "stream": stream, "write": write}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
