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

ROUNDS = 5


def killed_again_and_again(server: Server, *words: str) -> None:
    """Run a replay; kill the server or not, and the replay a moment later; and in the end let it finish."""
    chance = random.Random(2026)
    for number in range(ROUNDS):
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
    _, errors = last.communicate(timeout=PATIENCE_S)
    assert last.returncode == 0, errors[-3000:].decode()


def replaying(*words: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", replay_process.__name__, *words]
    root = Path(__file__).parents[2]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_replay_to_a_topic_is_there_once_whoever_is_killed(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    with Server(tmp_path, settings={"PENSTOCK_BROKER__MAINTENANCE": "50ms"}) as server:
        servers = f"127.0.0.1:{server.ports['native']}"
        with penstock.connect(servers) as broker:
            half_deleted(broker, "orders", lake)

        killed_again_and_again(server, servers, lake, "to", "copy")

        with penstock.connect(servers) as broker:
            copies = broker.read("copy", limit=2 * RECORDS)
            counted = Counter(int(message.value) for message in copies)
            assert counted == Counter(range(RECORDS))


def test_a_group_gets_everything_whoever_is_killed(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    with Server(tmp_path, settings={"PENSTOCK_BROKER__MAINTENANCE": "50ms"}) as server:
        servers = f"127.0.0.1:{server.ports['native']}"
        with penstock.connect(servers) as broker:
            half_deleted(broker, "orders", lake)

        killed_again_and_again(server, servers, lake, "group", "audit")

        with penstock.connect(servers) as broker:
            found: list[int] = []
            with broker.consumer("orders", group="audit") as consumer:
                while received := consumer.receive(500):
                    found += [int(message.value) for message in received]
                    consumer.ack(received)
            assert sorted(found) == list(range(RECORDS))
            assert broker.describe_group("orders", "audit").lost == 0
