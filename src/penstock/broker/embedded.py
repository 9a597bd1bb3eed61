"""The embedded broker for threaded programs: the facade of ``api/``, a core and a driver.

    penstock.open("data") ──> EmbeddedBroker ──> LocalOperations ──> Core
                                   └── ThreadDriver runs what they return

``broker/aio.py`` is its twin for asyncio.
"""

from os import PathLike
from random import Random
from typing import Self

from penstock.api.broker import Broker
from penstock.broker.core import Core
from penstock.broker.drivers.threads import ThreadDriver
from penstock.broker.operations import LocalOperations
from penstock.broker.program import ProgramOperations
from penstock.clock import Clock, SystemClock
from penstock.config.broker import MEMORY, BrokerConfig
from penstock.errors import DirectoryUnusable
from penstock.log.files import Files, MemoryFiles, SystemFiles
from penstock.log.open_files import open_files_max


def make_core(
    directory: str | None,
    config: BrokerConfig | None,
    clock: Clock | None,
    files: Files | None,
    random: Random | None,
) -> Core:
    """A core that is not open yet, with the outside world it was given or the real one."""
    if files is None:
        open_max = open_files_max((config or BrokerConfig()).open_files_max)
        files = MemoryFiles() if directory is None else SystemFiles(open_max)
    if directory is not None and (not isinstance(directory, str | PathLike) or "\0" in str(directory)):
        raise DirectoryUnusable(directory=repr(directory), why="give the path of a folder as text")
    return Core(
        directory=MEMORY if directory is None else str(directory),
        files=files,
        clock=clock or SystemClock(),
        config=config or BrokerConfig(),
        random=random or Random(),
    )


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
