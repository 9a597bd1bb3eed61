"""Power cuts on a real file system: what clients were answered is there after ext4 has recovered.

``test_power.py`` chooses which unsynced bytes survive; here the kernel does.
The server runs on an ext4 of its own that is shut down without a flush, so
everything that was written and not synced is lost: file contents, lengths,
new names and directories alike.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.server.crew import Crew
from tests.server.loop_disk import LoopDisk, run
from tests.server.process import LISTENERS, Server, until
from tests.server.test_kafka_kill import PARTITIONS, Killer, run_transactions

import penstock

CUTS = 8
CUTS_IN_A_SOAK = 150
SEED = 2026

pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    with LoopDisk(tmp_path) as disk:
        yield disk


@pytest.mark.parametrize("cuts", [CUTS, pytest.param(CUTS_IN_A_SOAK, marks=pytest.mark.soak)])
def test_nothing_that_was_answered_is_lost_by_a_power_cut(tmp_path: Path, disk: LoopDisk, cuts: int) -> None:
    random = Random(SEED)
    with Server(tmp_path, data=disk.place / "data") as server, Crew(server.url) as crew:
        crew.begin(("publish", 1), ("publish", 2), ("consume", 3), ("consume", 4), ("prefetch", 5))
        for number in range(cuts):
            crew.hear(0 if number % 5 == 4 else random.randrange(300))
            cut(server, disk)
            server.start()
        crew.hear(300)
        crew.end()
        server.check_log()

        with penstock.connect(server.url) as broker:
            crew.ledger.check(broker)
        assert min(len(crew.ledger.published), len(crew.ledger.acked)) > 10 * cuts  # They did work.


def test_a_transaction_is_there_whole_or_not_at_all_after_power_cuts(tmp_path: Path, disk: LoopDisk) -> None:
    with Server(tmp_path, data=disk.place / "data", listeners=(*LISTENERS, "kafka")) as server:
        with penstock.connect(server.url) as broker:
            broker.create_topic("orders", partitions=PARTITIONS)

        with Killer(server, seed=3, kill=lambda: fail_and_cut(server, disk)) as killer:
            history = run_transactions(server, killer)

        history.check(server)


def test_the_power_comes_back_for_a_disk_that_another_program_has_mounted(disk: LoopDisk) -> None:
    lock, synced, lost = (disk.place / name for name in ("LOCK", "synced", "lost"))
    for path in (lock, synced):
        path.touch()
    run("sync", "--file-system", str(disk.place))
    ours = Path("/proc/self/ns/mnt").readlink()
    with subprocess.Popen(["unshare", "--mount", "sleep", "60"]) as sandbox:
        theirs = Path(f"/proc/{sandbox.pid}/ns/mnt")
        until(lambda: theirs.readlink() != ours)
        lost.touch()

        disk.cut_power()
        disk.restore_power()

        sandbox.kill()
    assert [path.exists() for path in (lock, synced, lost)] == [True, True, False]


def cut(server: Server, disk: LoopDisk) -> None:
    """The machine goes dark: process and disk at once."""
    server.kill()
    disk.cut_power()
    disk.restore_power()


def fail_and_cut(server: Server, disk: LoopDisk) -> None:
    """The disk goes first, so the server runs for a moment with writes that fail."""
    disk.cut_power()
    server.kill()
    disk.restore_power()
