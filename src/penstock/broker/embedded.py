"""The embedded broker for threaded programs: the facade of ``api/``, a core and a driver.

    penstock.open("data") ──> EmbeddedBroker ──> LocalOperations ──> Core
                                   └── ThreadDriver runs what they return

``broker/aio.py`` is its twin for asyncio.
"""

from typing import Self

from penstock.api.broker import Broker
from penstock.broker.core import Core, make_core
from penstock.broker.drivers.threads import ThreadDriver
from penstock.broker.operations import LocalOperations
from penstock.broker.program import ProgramOperations
from penstock.config.broker import BrokerConfig


class EmbeddedBroker(Broker):
    """A broker in this process."""

    def __init__(self, core: Core, driver: ThreadDriver) -> None:
        self._local = LocalOperations(core)
        super().__init__(ProgramOperations(self._local), driver)
        self._core = core

    @classmethod
    def open(cls, directory: str | None = None, *, config: BrokerConfig | None = None) -> Self:
        """Open a broker on a directory, or one that keeps all in memory."""
        core = make_core(directory, config, None, None, None)
        driver = ThreadDriver(core)
        driver.open()
        return cls(core, driver)
