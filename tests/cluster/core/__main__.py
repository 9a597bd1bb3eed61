# ruff: noqa: T201 - a command prints
"""Run seeds: ``python -m tests.cluster.core FIRST [LAST] [--bug NAME]``."""

import argparse
import time
import traceback
from collections import Counter

from tests.cluster.core.bugs import BUGS, planted
from tests.cluster.core.world import World


def main() -> None:
    ask = argparse.ArgumentParser()
    ask.add_argument("first", type=int)
    ask.add_argument("last", type=int, nargs="?")
    ask.add_argument("--bug", choices=[*BUGS, "all"])
    ask.add_argument("--model", action="store_true", help="with a model of the broker")
    args = ask.parse_args()
    last = args.last if args.last is not None else args.first + 1
    for bug in list(BUGS) if args.bug == "all" else [args.bug]:
        began, total = time.perf_counter(), Counter[str]()
        for seed in range(args.first, last):
            world = World(seed, real=not args.model, programs=bug is None or BUGS[bug].programs)
            try:
                with planted(bug):
                    world.run()
            except BaseException as error:  # noqa: BLE001 - whatever it is, it has a seed
                took = time.perf_counter() - began
                print(
                    f"{bug or 'core'}: seed {seed} ({took:.1f} s): {type(error).__name__}: {str(error)[:200]}"
                )
                if bug is None:
                    traceback.print_exc()
                    return
                break
            total += Counter(world.faults) + world.store.seen
            if world.programs is not None:
                total += world.programs.outcomes
            total["acknowledged"] += len(world.history.acknowledged)
            total["rejected"] += len(world.history.rejected)
            total["settled"] += len(world.history.settled)
            total["events"] += world.simulation.events
            total["entries"] += world.state().next - 1
        else:
            took = time.perf_counter() - began
            print(f"{bug or 'core'}: {last - args.first} seeds, nothing found ({took:.1f} s); {dict(total)}")


main()
