"""The benchmarks of the pipeline run; how fast they find the machine is nobody's promise."""

from typing import TYPE_CHECKING

import pytest

from benchmarks import spark as benchmarks
from benchmarks.__main__ import measure
from benchmarks.model import Benchmark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.parametrize("benchmark_", benchmarks.BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_each_benchmark_measures_itself_and_its_limit(spark: "SparkSession", benchmark_: Benchmark) -> None:
    assert benchmarks.session() == spark, "there is one in a process"

    result = measure(benchmark_, benchmark_.sizes["tiny"], rounds=1)

    assert result.measured > 0
    assert result.limit > 0
