"""Seeds of the simulated cluster, and planted bugs that it has to find.

``python -m tests.cluster.core SEED`` repeats a seed, ``--bug NAME`` with a planted bug.
"""

import re
from pathlib import Path

import pytest
from tests.cluster.core.bugs import BUGS, planted
from tests.cluster.core.virtual import Violation
from tests.cluster.core.world import World

from penstock.errors import CorruptionError

SEEDS = 200
PARTS = 4  # So that two processes share the work.
SOAK_SEEDS = 10_000


def run(seeds: range) -> None:
    for seed in seeds:
        try:
            World(seed, real=True).run()
        except Exception as error:
            raise AssertionError(f"python -m tests.cluster.core {seed}") from error


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_seed_breaks_a_promise(part: int) -> None:
    run(range(part, SEEDS, PARTS))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_no_seed_of_a_soak_breaks_a_promise(part: int) -> None:
    run(range(SEEDS + part, SOAK_SEEDS, PARTS))


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    bug = BUGS[name]
    for seed in range(bug.seeds):
        world, found = World(seed, real=bug.real, programs=bug.programs), False
        try:
            with planted(name):
                world.run()
        except* (Violation, CorruptionError):  # The latter: a hole in a log that is loaded.
            found = True
        if found:
            return
    pytest.fail(f"{name}: not found in {bug.seeds} seeds")


def test_the_page_lists_every_planted_bug_with_its_limit() -> None:
    page = (Path(__file__).parents[3] / "docs/correctness.md").read_text()

    rows = dict(re.findall(r"^\| (.+) \| \d+ \| (\d+) \|$", page, re.MULTILINE))

    assert rows == {name: str(bug.seeds) for name, bug in BUGS.items()}


def test_a_seed_runs_the_same_every_time() -> None:
    one, other = World(7, real=True), World(7, real=True)

    one.run()
    other.run()

    assert one.simulation.events == other.simulation.events
    assert one.store.objects == other.store.objects
    assert one.history.acknowledged == other.history.acknowledged
