"""A broker whose partitions come and go, for tests."""

from typing import Any

from penstock.broker.core import Core
from penstock.broker.steps import Durable, Step, Steps
from penstock.testing.broker import TestBroker


def core_of(broker: TestBroker) -> Core:
    return broker._core


def close(broker: TestBroker, topic: str, number: int, owner: int = 2, epoch: int = 9) -> None:
    """Close one partition: node ``owner`` has it since ``epoch``."""
    broker._driver.run(core_of(broker).close_partition(topic, number, owner, epoch))


def reopen(broker: TestBroker, topic: str, number: int, epoch: int = 10) -> None:
    broker._driver.run(core_of(broker).open_partition(topic, number, epoch))


class Held:
    """An operation that a test runs step by step, as ``Operation`` would, which may be compiled."""

    def __init__(self, steps: Steps[Any]) -> None:
        self._steps = steps
        self.ended = False
        self.error: Exception | None = None
        self.result: Any = None
        self.wanted: list[Step] = []
        self.advance()

    def advance(self) -> None:
        try:
            while True:
                wanted = next(self._steps)
                if not isinstance(wanted, Durable) or wanted.log.durable < wanted.written:
                    self.wanted.append(wanted)
                    return
        except StopIteration as end:
            self.result, self.ended = end.value, True
        except Exception as error:  # noqa: BLE001 - the test looks at it.
            self.error, self.ended = error, True

    def close(self) -> None:
        self._steps.close()
