"""A replay in a process of its own, to be killed: as it is, but with threads for Spark.

    python -m tests.spark.replay_process SERVERS LAKE to TOPIC      the pipeline, to another topic
    ...                                               group NAME    what was deleted, put back for a group

It prints a line when it begins.  Chunks and calls are tiny, so that wherever a
kill comes there is something to break.
"""

import sys

from tests.spark.archive_process import WithoutSpark, connected, run_tasks

from penstock.clock import SystemClock
from penstock.spark import restoring
from penstock.spark.pipelines import replay
from penstock.spark.pipelines.run.progress import RunProgress
from penstock.spark.pipelines.run.settings import RunSettings
from penstock.spark.replay import chunks

CHUNK_RECORDS = 25


def run(servers: str, lake: str, kind: str, target: str) -> None:
    """Replay the topic ``orders``."""
    for module, name, value in [
        (chunks, "run_tasks", run_tasks),
        (replay, "CHUNK_RECORDS", CHUNK_RECORDS),
        (restoring, "CHUNK_BYTES", 10_000),
    ]:
        setattr(module, name, value)
    settings = replay.Settings(topic="orders", **{kind: target})  # type: ignore[arg-type]
    clock = SystemClock()
    with connected(servers) as broker:
        told = RunSettings(name=target, lake=lake)
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        replay.run(settings, WithoutSpark(told, broker, servers, clock, RunProgress(clock), once=True))


if __name__ == "__main__":
    run(*sys.argv[1:5])
