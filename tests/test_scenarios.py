"""Runs tests/scenarios/*.txt: a command, ``----``, and what it must print.

Read them as documentation of the delivery engine.  Commands:

    engine attempts_max=3 floor=0 weights=high:3,normal:1     begin
    publish 10 lane=high                                      the log grows, and is visible
    lease 5 at=0 timeout=1000                                 hand out at most 5
    ack 1  /  ack 1 3-5                                       a lease, or offsets 3 and 4 of it
    nack 1 3-5 at=100 delay=500                               given back; comes again later
    park 1 3-5  /  call 3 at=100                              set aside; taken by name
    extend 1 until=2000
    expire at=1000                                            overdue leases are given back
    close 1 at=100                                            its consumer left; the attempt does not count
    bury                                                      exhausted messages become dead letters
    purge 0-10  /  seek 4  /  retain 5                        settle what nobody holds; move; retention
    restart                                                   through a snapshot
    state                                                     where everything is

Where no range is given, the rest of the lease is meant.  When behaviour
changes on purpose, run ``pytest --rewrite`` and review the diff as you would
review code.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.delivery.engine import DeliveryEngine, Lease
from penstock.delivery.retries import PARKED_MS
from penstock.log.lanes import LaneIndex
from penstock.types import LANES

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
ANSWERS = ["ok", "lost", "settled before"]
TIMEOUT_MS = 1_000
Answer = Callable[[int, int, int], int]


class Stage:
    """Interprets one scenario."""

    def __init__(self) -> None:
        self.lanes = LaneIndex()
        self.engine = DeliveryEngine(0, self.lanes, 3)
        self.high = 0

    def do(self, line: str) -> str:
        verb, *words = line.split()
        named = dict(word.split("=") for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        handler = getattr(self, f"do_{verb}", None)
        assert handler is not None, f"no such command: {verb}"
        return str(handler(plain, named))

    def do_engine(self, plain: list[str], named: dict[str, str]) -> str:
        weights = None
        if "weights" in named:
            pairs = [pair.split(":") for pair in named["weights"].split(",")]
            weights = {LANES[lane]: int(weight) for lane, weight in pairs}
        self.high = int(named.get("floor", 0))
        attempts_max = int(named.get("attempts_max", 3))
        self.engine = DeliveryEngine(self.high, self.lanes, attempts_max, weights)
        return "ok"

    def do_publish(self, plain: list[str], named: dict[str, str]) -> str:
        start, self.high = self.high, self.high + int(plain[0])
        self.lanes.add(start, self.high, LANES[named.get("lane", "normal")])
        return f"{start}-{self.high}"

    def do_lease(self, plain: list[str], named: dict[str, str]) -> str:
        timeout_ms = int(named.get("timeout", TIMEOUT_MS))
        lease = self.engine.lease(int(plain[0]), self.high, int(named["at"]), timeout_ms, 1)
        return "nothing" if lease is None else told(lease)

    def do_ack(self, plain: list[str], named: dict[str, str]) -> str:
        return self.answer(plain, self.engine.settle)

    def do_nack(self, plain: list[str], named: dict[str, str]) -> str:
        due_ms = int(named["at"]) + int(named.get("delay", 0))
        attempt = self.attempt_of(plain) + 1
        return self.answer(plain, self.back(attempt, due_ms))

    def do_park(self, plain: list[str], named: dict[str, str]) -> str:
        attempt = self.attempt_of(plain)
        return self.answer(plain, self.back(attempt, PARKED_MS))

    def do_call(self, plain: list[str], named: dict[str, str]) -> str:
        offset = int(plain[0])
        attempt = self.engine.waiting_attempt(offset)
        if not attempt:
            return "not waiting"
        deadline_ms = int(named["at"]) + TIMEOUT_MS
        number = self.engine.next_number
        return told(self.engine.restore_lease(number, offset, offset + 1, attempt, deadline_ms, 1))

    def do_extend(self, plain: list[str], named: dict[str, str]) -> str:
        return ANSWERS[self.engine.extend(int(plain[0]), int(named["until"]))]

    def do_expire(self, plain: list[str], named: dict[str, str]) -> str:
        now_ms = int(named["at"])
        told_lines = []
        for lease in self.engine.expired(now_ms):
            for start, end in lease.unsettled():
                self.engine.give_back(lease.number, start, end, lease.attempt + 1, now_ms)
                told_lines.append(f"lease {lease.number}: {start}-{end} back")
        return "\n".join(told_lines) or "nothing"

    def do_close(self, plain: list[str], named: dict[str, str]) -> str:
        runs = self.engine.release(int(plain[0]), int(named["at"]), False)
        return ranges(runs)

    def do_bury(self, plain: list[str], named: dict[str, str]) -> str:
        told_lines = []
        while (taken := self.engine.take_exhausted()) is not None:
            start, end, attempt = taken
            self.engine.settle_free(start, end)
            told_lines.append(f"{start}-{end} dead after {attempt - 1} attempts")
        return "\n".join(told_lines) or "nothing"

    def do_purge(self, plain: list[str], named: dict[str, str]) -> str:
        self.engine.settle_free(*span_of(plain[0]))
        return "ok"

    def do_seek(self, plain: list[str], named: dict[str, str]) -> str:
        self.engine.seek(int(plain[0]))
        return "ok"

    def do_retain(self, plain: list[str], named: dict[str, str]) -> str:
        return f"{self.engine.skip_to(int(plain[0]))} lost"

    def do_restart(self, plain: list[str], named: dict[str, str]) -> str:
        self.engine = DeliveryEngine.restore(self.engine.snapshot(), self.lanes)
        return "ok"

    def do_state(self, plain: list[str], named: dict[str, str]) -> str:
        engine = self.engine
        lines = [f"floor {engine.floor}, lag {engine.lag(self.high)}, next due {engine.next_due_ms()}"]
        if engine.done.count_above():
            lines.append(f"done above the floor: {ranges(engine.done.ranges())}")
        lines += [
            f"lease {lease.number}: {ranges(lease.unsettled())}, attempt {lease.attempt}"
            for lease in engine.leases.values()
        ]
        for start, end, due_ms in engine.waiting_ranges():
            when = "parked" if due_ms == PARKED_MS else f"due {due_ms}"
            lines.append(f"waiting: {start}-{end}, attempt {engine.waiting_attempt(start)}, {when}")
        lines += [f"exhausted: {start}-{end}" for start, end, _ in engine.exhausted]
        return "\n".join(lines)

    def attempt_of(self, plain: list[str]) -> int:
        lease = self.engine.leases.get(int(plain[0]))
        return 0 if lease is None else lease.attempt

    def back(self, attempt: int, due_ms: int) -> Answer:
        return lambda number, start, end: self.engine.give_back(number, start, end, attempt, due_ms)

    def answer(self, plain: list[str], call: Answer) -> str:
        number = int(plain[0])
        lease = self.engine.leases.get(number)
        if len(plain) > 1:
            spans = [span_of(word) for word in plain[1:]]
        else:
            spans = [(0, 1)] if lease is None else lease.unsettled()
        return ", ".join(dict.fromkeys(ANSWERS[call(number, start, end)] for start, end in spans))


def told(lease: Lease) -> str:
    where = f"{lease.start}-{lease.end}"
    return f"lease {lease.number}: {where}, attempt {lease.attempt}, until {lease.deadline_ms}"


def span_of(word: str) -> tuple[int, int]:
    start, _, end = word.partition("-")
    return int(start), int(end or int(start) + 1)


def ranges(runs: list[tuple[int, int]]) -> str:
    return " ".join(f"{start}-{end}" for start, end in runs) or "nothing"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    stage = Stage()
    actual: list[str] = []
    for block in path.read_text().strip().split("\n\n"):
        if block.startswith("#"):
            actual.append(block)
            continue
        command = block.partition("\n----")[0]
        actual.append(f"{command}\n----\n{stage.do(command)}")
    text = "\n\n".join(actual) + "\n"
    if request.config.getoption("--rewrite"):
        path.write_text(text)
    assert path.read_text() == text
