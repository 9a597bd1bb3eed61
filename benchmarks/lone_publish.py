"""Client CPU of one blocking publish at a time: ``python -m benchmarks.lone_publish [messages]``.

The server runs in a process of its own and does not sync (``durability="os"``).  Printed are the CPU time of
the client for each publish (user and system, medians of six rounds), and the wall time.
"""

import asyncio
import multiprocessing
import resource
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from statistics import median

import penstock
from penstock.config.server import ListenSettings, ServerConfig, ServerSettings
from penstock.frontends.serve import Server
from penstock.version import compiled

ROUNDS = 6
WARM_UP = 2000


def serve(directory: str, pipe: Connection) -> None:
    async def run() -> None:
        listen = ListenSettings(native="127.0.0.1:0", http="off", kafka="off", text="off", status="off")
        config = ServerConfig(server=ServerSettings(data=directory), listen=listen)
        async with await Server.open(config) as server:
            host, port = server.addresses["native"]
            pipe.send(f"{host}:{port}")
            await asyncio.to_thread(pipe.recv)

    asyncio.run(run())


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(url: str, count: int) -> None:
    with penstock.connect(url) as broker:
        broker.create_topic("single", durability="os", partitions=1)
        value = bytes(100)
        for _ in range(WARM_UP):
            broker.publish("single", value)
        cpu, wall = [], []
        for _ in range(ROUNDS):
            cpu_before, before = cpu_s(), time.perf_counter()
            for _ in range(count):
                broker.publish("single", value)
            cpu.append((cpu_s() - cpu_before) / count * 1e6)
            wall.append((time.perf_counter() - before) / count * 1e6)
    build = "compiled" if compiled() else "interpreted"
    print(f"{build}: client CPU {median(cpu):.1f} us (best {min(cpu):.1f}), wall {median(wall):.0f} us")


def main() -> None:
    here, there = multiprocessing.Pipe()
    with tempfile.TemporaryDirectory() as directory:
        server = multiprocessing.get_context("spawn").Process(target=serve, args=(directory, there))
        server.start()
        try:
            measure(here.recv(), int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
        finally:
            here.send(None)
            server.join()


if __name__ == "__main__":
    main()
