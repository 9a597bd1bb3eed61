"""``penstock cluster dev``: a cluster on this machine, to try fail-over on.

Each node is a ``penstock serve`` of its own, on a directory as the store.  A node that ends is reported with
the command that starts it again; the cluster goes on without it.  Ctrl-C stops all of them.
"""

import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Final

from penstock.cli import screen
from penstock.cli.screen import Column
from penstock.cli.server.pipeline_process import die_with_parent
from penstock.cli.server.serve import program_name

NAME: Final = "dev"
# The ports of node 1; each further node has the next ones after ``PORTS_STEP``.
PORTS: Final = {"native": 7070, "peer": 7071, "http": 8080, "kafka": 9092}
PORTS_STEP: Final = 10
STOP_S: Final = 20.0
COLUMNS: Final = (
    Column("NODE", right=True), Column("PID", right=True), Column("NATIVE"), Column("KAFKA"),
    Column("DASHBOARD"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DevNode:
    number: int
    directory: Path

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{PORTS[listener] + PORTS_STEP * (self.number - 1)}"

    @property
    def arguments(self) -> list[str]:
        """The arguments of ``penstock serve`` for this node."""
        listeners = [part for name in PORTS for part in (f"--{name}", self.address(name))]
        return [
            "serve", "--cluster", NAME, "--store", f"file://{(self.directory / 'store').resolve()}",
            "--node", str(self.number), "--data", str(self.directory / f"node-{self.number}"),
            *listeners, "--text", "off", "--status", "off",
        ]  # fmt: skip


class DevCluster:
    """The processes of a cluster."""

    def __init__(self, nodes: Sequence[DevNode]) -> None:
        self.nodes = nodes
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._events: SimpleQueue[tuple[int, str | None]] = SimpleQueue()  # None: the process has ended.

    def run(self) -> int:
        """Start every node, say how to use them, and wait until all have ended or a signal comes."""
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            for node in self.nodes:
                self._start(node)
            if not self._all_ready():
                return 1
            self._explain()
            self._watch()
        except KeyboardInterrupt:
            screen.note("stopping the cluster")
        finally:
            self._stop()
        return 0

    def _start(self, node: DevNode) -> None:
        command = [sys.executable, "-m", "penstock", *node.arguments]
        # A session of its own: Ctrl-C comes only to this process, which stops the nodes in order.
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=die_with_parent()
        )
        assert process.stdout is not None
        self._processes[node.number] = process
        Thread(target=self._read, args=(node.number, process.stdout), daemon=True).start()

    def _read(self, number: int, output: IO[str]) -> None:
        for line in output:
            self._events.put((number, line.strip()))
        self._events.put((number, None))

    def _all_ready(self) -> bool:
        """Wait for ``ready`` of each; False if one of them ends before."""
        waiting = {node.number for node in self.nodes}
        while waiting:
            number, line = self._events.get()
            if line is None:
                screen.note(f"node {number} could not start; its error is above")
                return False
            if line == "ready":
                waiting.discard(number)
        return True

    def _explain(self) -> None:
        screen.line(f"A cluster of {len(self.nodes)} nodes is ready; press Ctrl-C to stop it.\n")
        screen.table(COLUMNS, [self._row(node) for node in self.nodes])
        first, last, program = self.nodes[0], self.nodes[-1], program_name()
        pid = self._processes[last.number].pid
        screen.line("\nPublish through one node and consume through another:")
        screen.line(f'  {program} produce orders "two books" --server penstock://{first.address("native")}')
        screen.line(f"  {program} consume orders --server penstock://{last.address('native')}")
        screen.line("\nKill a node; the others take over its partitions within a few seconds:")
        screen.line(f"  kill -9 {pid}")
        screen.flush()

    def _row(self, node: DevNode) -> tuple[object, ...]:
        return (
            node.number, self._processes[node.number].pid, f"penstock://{node.address('native')}",
            node.address("kafka"), f"http://{node.address('http')}/ui/",
        )  # fmt: skip

    def _watch(self) -> None:
        """Report nodes that end, until none is left."""
        running = {node.number: node for node in self.nodes}
        while running:
            number, line = self._events.get()
            if line is None:
                node = running.pop(number)
                code = self._processes[number].wait()
                how = (
                    f"was killed ({signal.Signals(-code).name})"
                    if code < 0
                    else f"ended with exit code {code}"
                )
                again = " ".join([program_name(), *node.arguments])
                screen.line(f"\nNode {number} {how}. Start it again in another terminal with:\n  {again}")
                screen.flush()

    def _stop(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
