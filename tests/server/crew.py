"""Client processes at work on a server, and what they tell.

crew = Crew(server.url)
crew.begin(("publish", 1), ("consume", 2))
crew.hear(100)                        wait until they were answered a hundred times more
crew.end()                            let them finish
crew.ledger.check(broker)
"""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.server.ledger import OUT, PARTITIONS, TOPIC, Ledger
from tests.server.process import PATIENCE_S

import penstock

LOAD = Path(__file__).with_name("load.py")


class Crew:
    """Some client processes and their ledger."""

    def __init__(self, url: str) -> None:
        self.ledger = Ledger()
        self.heard = 0  # Lines, of all processes.
        self._url = url
        self._more = threading.Condition()
        self._processes: list[subprocess.Popen[str]] = []
        self._readers: list[threading.Thread] = []

    def prepare(self) -> None:
        """Topics and groups."""
        with penstock.connect(self._url) as broker:
            broker.create_topic(TOPIC, partitions=PARTITIONS, segment_bytes=200_000)
            broker.create_topic(OUT, partitions=1)
            broker.create_group(
                TOPIC, "workers", max_attempts=1000, backoff=["10ms"], visibility_timeout="10m"
            )
            broker.create_group(
                TOPIC, "prefetched", max_attempts=1000, backoff=["10ms"], visibility_timeout="10m"
            )

    def begin(self, *roles: tuple[str, int]) -> None:
        """Start processes; returns when each of them is connected."""
        wanted = self.ledger.begun + len(roles)
        for role, number in roles:
            process = subprocess.Popen(
                [sys.executable, str(LOAD), self._url, role, str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self._processes.append(process)
            reader = threading.Thread(target=self._listen, args=(process,), daemon=True)
            reader.start()
            self._readers.append(reader)
        self.wait_until(lambda: self.ledger.begun == wanted)

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):  # What was cut off by a kill was not told.
                with self._more:
                    self.ledger.take(line[:-1])
                    self.heard += 1
                    self._more.notify_all()

    def hear(self, count: int) -> None:
        """Wait for more answers."""
        before = self.heard
        self.wait_until(lambda: self.heard >= before + count)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until what was told makes it true."""
        with self._more:
            told = self._more.wait_for(lambda: bool(self.ledger.failures) or condition(), PATIENCE_S)
        assert self.ledger.failures == [], self.ledger.failures[0]
        assert told, "the clients do not get on"

    def kill(self, index: int) -> None:
        """SIGKILL for one of them; what it told before is entered."""
        process = self._processes.pop(index)
        process.kill()
        process.wait(PATIENCE_S)
        self._readers.pop(index).join(PATIENCE_S)
        self._shut(process)

    def end(self) -> None:
        """Let them finish what they have begun, and end."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        codes = [process.wait(PATIENCE_S) for process in self._processes]
        for reader in self._readers:
            reader.join(PATIENCE_S)
        assert self.ledger.failures == [], self.ledger.failures[0]
        assert codes == [0] * len(codes)
        assert self.ledger.done == len(codes)

    def __enter__(self) -> Self:
        self.prepare()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        for process in self._processes:
            self._shut(process)

    @staticmethod
    def _shut(process: "subprocess.Popen[str]") -> None:
        for stream in (process.stdin, process.stdout):
            if stream is not None and not stream.closed:
                stream.close()
