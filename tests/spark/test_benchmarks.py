"""The benchmarks of the pipeline run; how fast they find the machine is nobody's promise."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from benchmarks import spark as benchmarks
from benchmarks.__main__ import measure
from benchmarks.model import Benchmark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 10_000


@pytest.fixture(scope="module")
def place(spark: "SparkSession") -> Iterator[benchmarks.Place]:
    """One for all of them: what a benchmark leaves behind does not matter to the others."""
    assert benchmarks.session() == spark, "there is one in a process"
    with benchmarks.filled(RECORDS) as filled:
        yield filled


@pytest.mark.slow
@pytest.mark.parametrize("benchmark_", benchmarks.BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_each_benchmark_measures_itself_and_its_limit(
    place: benchmarks.Place, benchmark_: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmarks, "filled", lambda _size: nullcontext(place))

    result = measure(benchmark_, benchmark_.sizes["tiny"], rounds=1)
    place.broker.alter_topic(benchmarks.TOPIC, retention="7d")  # A replay has retention delete all it can.

    assert result.measured > 0
    assert result.limit > 0
