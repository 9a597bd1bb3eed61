"""The simulated cluster while an operator drains nodes, moves partitions, and installs a new release.

The new release understands one format of the metadata log more,
which is used when all live nodes do; from then on a node with the old one must not serve.
"""

from collections import Counter

import pytest
from tests.cluster.core.virtual import Violation
from tests.cluster.core.world import Life, World

from penstock.cluster.core.metadata import FORMAT, Change, Drain, Prefer, Preference, State

SEEDS = 24
SOAK_SEEDS = 2000


NEWER = FORMAT + 1


class OperatedWorld(World):
    """Half of the faults that do little come with a request of an operator."""

    def _fault_calm(self, life: Life) -> None:
        super()._fault_calm(life)
        self._operate(life)

    def _fault_slow(self, life: Life) -> None:
        super()._fault_slow(life)
        self._operate(life)

    def _check(self) -> None:
        super()._check()
        state = self.state()
        known = [state.members[name].format for name in state.alive()]
        if min(known) < state.format or (min(known) == NEWER and state.format < NEWER):
            raise Violation(f"the log uses format {state.format}, and its nodes understand {known}")

    def _operate(self, life: Life) -> None:
        if life.machine.format < NEWER and self.random.random() < 0.7:
            self._fault_drain(life)
        else:
            self._place(life)

    def _fault_drain(self, life: Life) -> None:
        self._upgrade(life)
        super()._fault_drain(life)

    def _fault_kill(self, life: Life) -> None:
        self._upgrade(life)
        super()._fault_kill(life)

    def _upgrade(self, life: Life) -> None:
        """Its machine has the new release from the next start on."""
        self.faults["upgrade"] += life.machine.format < NEWER
        life.machine.format = NEWER

    def _place(self, life: Life) -> None:
        node = self.random.choice(self.machines).number
        keys = [key for key, _ in life.node.state.partitions()] or self.keys
        chosen = [self.random.choice(keys) for _ in range(self.random.randrange(3))]

        def make(state: State) -> Change | None:
            if not chosen:
                return Drain(node, node not in state.draining)
            if not all(state.partition(key) for key in chosen):
                return None
            return Prefer([Preference(*key, state.owner_of(key)[1], node) for key in chosen])

        if life.node.incarnation in life.node.state.members:
            self.faults["operator"] += 1
            life.process.call(0.0, lambda: life.node.propose(make), lambda *_: None)


def run(seeds: range) -> Counter[str]:
    """What was done, and how many clusters use the newer format in the end."""
    done = Counter[str]()
    for seed in seeds:
        world = OperatedWorld(seed, real=True)
        try:
            world.run()
        except Exception as error:
            raise AssertionError(f"seed {seed} of {__name__}") from error
        done += world.faults
        done["newer"] += world.state().format == NEWER
    return done


@pytest.mark.slow
def test_no_seed_with_an_operator_breaks_a_promise() -> None:
    done = run(range(SEEDS))

    assert done["operator"] + done["upgrade"] > SEEDS
    assert 0 < done["newer"] < SEEDS


@pytest.mark.soak
def test_no_seed_of_a_soak_with_an_operator_breaks_a_promise() -> None:
    run(range(SEEDS, SOAK_SEEDS))
