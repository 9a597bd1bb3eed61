"""The comparison of clusters runs on real nodes, of Penstock in any case."""

import sys

import pytest

from benchmarks.cluster.peers.__main__ import measure
from benchmarks.cluster.peers.clusters import CANDIDATES
from benchmarks.cluster.peers.work import TINY, WORKS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["penstock-directory", "nats"])
def test_all_work_is_done_and_nothing_is_lost_when_a_node_is_killed(name: str) -> None:
    candidate = next(each for each in CANDIDATES if each.name == name)
    if missing := candidate.missing():
        pytest.skip(f"not installed: {missing}")

    figures, notes = measure([candidate], TINY, rounds=1)

    assert notes == {}
    assert sorted(each.work for each in figures) == sorted(WORKS)
    assert all(each.value > 0 and each.messages > 0 and each.lost == 0 for each in figures)
