"""The real server in virtual time, in this process, over a disk and a clock that misbehave."""

import asyncio
from random import Random

from tests.client.served import VirtualServer

from penstock.config.broker import BrokerConfig
from penstock.frontends.kqueue.server import KQueueProtocol
from penstock.frontends.listener import Connections
from penstock.frontends.native.server import NativeListener
from penstock.frontends.security.gateway import AuthGateway
from penstock.testing import AsyncTestBroker
from penstock.testing.files import CrashDisk, Fault, FaultyFiles

CONFIG = BrokerConfig(clock_check_ms=60_000)  # Virtual minutes: the wall clock is looked at, as in real life.


class TroubledServer(VirtualServer):
    """A native listener over a broker whose disk and clock a test may spoil."""

    def __init__(self) -> None:
        self._disk = CrashDisk()
        super().__init__("data")

    async def start(self) -> None:
        """Open the broker and listen, where clients know it."""
        self.files = FaultyFiles(self._disk)
        self.broker = await AsyncTestBroker.open("data", config=CONFIG, clock=self.clock, files=self.files)
        gateway = AuthGateway(self.broker)
        kqueue = KQueueProtocol(self.broker, gateway)
        self.listener = NativeListener(self.broker, self._limits, Connections(100), gateway, kqueue)
        self._server = await self._loop.create_server(self.listener.connect, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """End it, and let every connection hear of it before the loop ends."""
        await super().stop()
        await self._disconnect()

    async def _disconnect(self) -> None:
        self._server.close()
        self.listener.abort()
        while self.listener.connections.open:  # noqa: ASYNC110 - one turn of the loop, or two.
            await asyncio.sleep(0)

    def fill(self) -> None:
        """From now on there is no room on the disk."""
        self.files.fail_next(Fault.FULL, lasting=True)

    def cut_power(self, random: Random) -> None:
        """Lose what was not synced, and start again; nobody was told, and nothing was closed."""

        async def again() -> None:
            self._disk.power_cut(random)
            await self._disconnect()
            await self.start()

        self.run(again())
