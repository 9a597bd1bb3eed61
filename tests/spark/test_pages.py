"""The Python of the pages about Spark runs: block after block, as a reader would, against a real broker."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.server.process import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
MARK = "<!-- not run: here; tests/spark/test_pages.py "
BLOCK = re.compile(MARK + r"[^\n]*\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVERS = "127.0.0.1:7070"


@pytest.mark.parametrize("page", ["docs/spark.md", "docs/README.md"])
def test_the_python_of_a_page_runs(
    page: str, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / page).read_text())
    names = {"__name__": "__main__"}

    with Server(tmp_path) as server:  # The pages' topics have names that other tests may like, too.
        servers = f"127.0.0.1:{server.ports['native']}"
        for number, block in enumerate(blocks):
            # Spark's JVM has a working directory of its own.
            here = block.replace(SERVERS, servers).replace('"checkpoints/', f'"{tmp_path}/checkpoints/')
            exec(compile(here, f"{page}, block {number + 1}", "exec"), names)

    assert blocks
    assert spark.catalog.currentDatabase() == "default", "the session goes on"
