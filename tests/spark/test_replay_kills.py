"""Replays and their broker are killed at random moments, again and again: each message is there once.

The first part of the topic is in the lake alone, the second in the log alone.
"""

import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from tests.server.process import PATIENCE_S, Server
from tests.spark import replay_process
from tests.spark.archived import RECORDS, half_deleted

import penstock

pytestmark = pytest.mark.slow

KILLS = 3  # Of one replay.
LAST_S = 4 * PATIENCE_S  # For the run that is not killed: hundreds of chunks, each waits for the disk.
TIMES = [1, pytest.param(25, marks=pytest.mark.soak)]  # That a replay is done.


def killed_again_and_again(chance: random.Random, server: Server, *words: str) -> None:
    """Run a replay; kill the server or not, and the replay a moment later; and in the end let it finish."""
    for number in range(KILLS):
        process = replaying(*words)
        assert process.stdout is not None
        process.stdout.readline()
        threading.Event().wait(chance.random() / 2)
        if chance.random() < 0.5:
            server.kill()
            server.start()
            threading.Event().wait(chance.random() / 2)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
        if process.returncode == 0 and "to" in words:  # It was quicker; run again, it would replay again.
            assert number > 0, "nothing was killed"
            return
    last = replaying(*words)
    _, errors = last.communicate(timeout=LAST_S)
    assert last.returncode == 0, errors[-3000:].decode()


def replaying(*words: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", replay_process.__name__, *words]
    root = Path(__file__).parents[2]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("times", TIMES)
def test_a_replay_to_a_topic_is_there_once_whoever_is_killed(
    chance: random.Random, tmp_path: Path, times: int
) -> None:
    lake = str(tmp_path / "lake")
    with Server(tmp_path, settings={"PENSTOCK_BROKER__MAINTENANCE": "50ms"}) as server:
        servers = f"127.0.0.1:{server.ports['native']}"
        with penstock.connect(servers) as broker:
            half_deleted(broker, "orders", lake)

        for copy in [f"copy-{number}" for number in range(times)]:
            killed_again_and_again(chance, server, servers, lake, "to", copy)

            with penstock.connect(servers) as broker:
                copies = broker.read(copy, limit=2 * RECORDS)
                counted = Counter(int(message.value) for message in copies)
                assert counted == Counter(range(RECORDS))


@pytest.mark.parametrize("times", TIMES)
def test_a_group_gets_everything_whoever_is_killed(chance: random.Random, tmp_path: Path, times: int) -> None:
    lake = str(tmp_path / "lake")
    with Server(tmp_path, settings={"PENSTOCK_BROKER__MAINTENANCE": "50ms"}) as server:
        servers = f"127.0.0.1:{server.ports['native']}"
        with penstock.connect(servers) as broker:
            half_deleted(broker, "orders", lake)

        for group in [f"audit-{number}" for number in range(times)]:
            killed_again_and_again(chance, server, servers, lake, "group", group)

            with penstock.connect(servers) as broker:
                found: list[int] = []
                with broker.consumer("orders", group=group) as consumer:
                    while received := consumer.receive(500):
                        found += [int(message.value) for message in received]
                        consumer.ack(received)
                assert sorted(found) == list(range(RECORDS))
                assert broker.describe_group("orders", group).lost == 0
