"""The simulated cluster while an operator drains nodes and chooses nodes for partitions."""

import pytest
from tests.cluster.core.world import Life, World

from penstock.cluster.core.metadata import Change, Drain, Prefer, Preference, State

SEEDS = 24
SOAK_SEEDS = 2000


class OperatedWorld(World):
    """Half of the faults that do little come with a request of an operator."""

    def _fault_calm(self, life: Life) -> None:
        super()._fault_calm(life)
        self._operate(life)

    def _fault_slow(self, life: Life) -> None:
        super()._fault_slow(life)
        self._operate(life)

    def _operate(self, life: Life) -> None:
        node = self.random.choice(self.machines).number
        chosen = [self.random.choice(self.keys) for _ in range(self.random.randrange(3))]

        def make(state: State) -> Change | None:
            if not chosen:
                return Drain(node, node not in state.draining)
            if not all(state.partition(key) for key in chosen):
                return None
            return Prefer([Preference(*key, state.owner_of(key)[1], node) for key in chosen])

        if life.node.incarnation in life.node.state.members:
            self.faults["operator"] += 1
            life.process.call(0.0, lambda: life.node.propose(make), lambda *_: None)


def run(seeds: range) -> int:
    operations = 0
    for seed in seeds:
        world = OperatedWorld(seed, real=True)
        try:
            world.run()
        except Exception as error:
            raise AssertionError(f"seed {seed} of {__name__}") from error
        operations += world.faults["operator"]
    return operations


@pytest.mark.slow
def test_no_seed_with_an_operator_breaks_a_promise() -> None:
    assert run(range(SEEDS)) > SEEDS


@pytest.mark.soak
def test_no_seed_of_a_soak_with_an_operator_breaks_a_promise() -> None:
    run(range(SEEDS, SOAK_SEEDS))
