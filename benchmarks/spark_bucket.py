"""The archive to an S3 server on this machine, beside the archive to a directory.

    make bench-spark                                       this and spark_kafka.py
    python -m benchmarks.spark_bucket --rows 500000 --rounds 5

In each round both archive the same topic to an empty lake, in turn.  A round before
them, which does not count, warms up.
"""

import argparse
import os
import sys
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final
from uuid import uuid4

from tests.store.seaweedfs import Bucket

from benchmarks.spark import TOPIC, Place, filled, run_pipeline, seconds_of

ROWS: Final = 2_000_000
ROUNDS: Final = 3


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="benchmarks.spark_bucket")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder, Bucket(Path(folder)) as bucket:
        os.environ.update(bucket.environment)  # Before Spark starts: its workers need them, too.
        with filled(options.rows) as place:
            roots = (bucket.uri, place.directory)
            found = [[rate(place, root) for root in roots] for _ in range(options.rounds + 1)][1:]
    sys.stdout.write("| | rows/s | in a directory | ratio |\n|---|---|---|---|\n")
    sys.stdout.write(f"{line(options.rows, found)}\n")
    return 0


def rate(place: Place, root: str) -> float:
    """Archive the topic to a new lake; rows a second."""
    lake = f"{root}/{uuid4().hex}"
    return place.count / seconds_of(partial(run_pipeline, place, "archive", topic=TOPIC, lake=lake))


def line(rows: int, rounds: list[list[float]]) -> str:
    """The medians and their spread, and the median of the ratios."""
    cells = [
        f"{median(values):,.0f} ({min(values):,.0f} - {max(values):,.0f})"
        for values in zip(*rounds, strict=True)
    ]
    ratio = median(bucket / directory for bucket, directory in rounds)
    return f"| archive to S3, {rows:,} x 100 B | {cells[0]} | {cells[1]} | {ratio:.2f} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
