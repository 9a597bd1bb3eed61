"""Connections between simulated processes: bytes arrive in order and after a while, or the connection breaks.

``Process.create_connection`` opens one, as a loop of asyncio does, so peers and their ports work as they are.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from tests.cluster.core.virtual import Process, Simulation

SWEEP_S: Final = 0.1  # Until the other side of a process that has died is told.
HELD_S: Final = 0.2  # Between two tries to get through.


class End:
    """One side of a connection: what asyncio calls its transport."""

    other: "End"

    def __init__(self, network: "Network", process: Process, protocol: asyncio.Protocol) -> None:
        self.process = process
        self.protocol = protocol
        self.closed = False
        self._network = network
        self._arrived: deque[bytes] = deque()
        self._reading = True

    def write(self, data: Any) -> None:
        if not self.closed and not self.other.closed:
            self.other._arrived.append(bytes(data))
            self.other.process.call_later(self._network.delay_s(), self.other._deliver)

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        """The other side reads what was written before it is told."""
        if not self.closed:
            self.process.call_soon(self._lose)
            self.closed = True
            self.other.process.call_later(self._network.delay_s(), self.other._end)

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self.process.call_soon(self._deliver)

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> Any:
        return (self.other.process.name, 0) if name == "peername" else None

    def breaks(self) -> None:
        """What is on its way is lost."""
        for end in (self, self.other):
            if not end.closed:
                end.closed = True
                end._arrived.clear()
                end.process.call_soon(end._lose)

    def _deliver(self) -> None:
        if self._network.is_held(self.other.process, self.process):
            self.process.call_later(HELD_S, self._deliver)
            return
        while self._arrived and self._reading and not self.closed:
            self.protocol.data_received(self._arrived.popleft())

    def _end(self) -> None:
        self._deliver()
        if not self.closed:
            self.closed = True
            self._lose()

    def _lose(self) -> None:
        self.protocol.connection_lost(None)


class Network:
    """Who listens where, and what is connected."""

    def __init__(self, simulation: Simulation, is_held: Callable[[Process, Process], bool]) -> None:
        self.is_held = is_held  # Whether what the one sends to the other does not arrive for now.
        self._random = simulation.random
        self._listening: dict[int, tuple[Process, Callable[[], Any]]] = {}
        self._connected: list[End] = []  # One end of each connection.
        simulation.connect = self._connect

    def delay_s(self) -> float:
        return 0.0005 + self._random.expovariate(1000)

    def listen(self, process: Process, port: int, make: Callable[[], Any]) -> None:
        self._listening[port] = process, make

    async def _connect(
        self, process: Process, make: Callable[[], asyncio.Protocol], port: int
    ) -> tuple[End, asyncio.Protocol]:
        await asyncio.sleep(self.delay_s())
        listening, accept = self._listening[port]
        if listening.dead:
            raise ConnectionRefusedError
        ours = End(self, process, make())

        def accepted() -> None:
            theirs.protocol = accept()
            theirs.protocol.connection_made(theirs)  # type: ignore[arg-type]

        theirs = End(self, listening, asyncio.Protocol())
        ours.other, theirs.other = theirs, ours
        self._connected.append(ours)
        listening.call_soon(accepted)
        ours.protocol.connection_made(ours)  # type: ignore[arg-type]
        return ours, ours.protocol

    def sever(self, process: Process) -> None:
        """All connections of a process break."""
        for end in self._connected:
            if process in (end.process, end.other.process):
                end.breaks()

    async def sweep(self) -> None:
        """Tell those who are connected to a process that has died."""
        while True:
            for end in self._connected:
                if end.process.dead or end.other.process.dead:
                    end.breaks()
            self._connected = [end for end in self._connected if not end.closed]
            await asyncio.sleep(SWEEP_S)
