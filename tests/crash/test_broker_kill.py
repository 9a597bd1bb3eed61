"""Real processes on a real directory, killed with SIGKILL at random moments, hundreds of times in all.

The work, the killing and the comparing are in ``broker_worker.py``; two of
them run side by side, each on a directory of its own.  Promised, and compared
after every kill: every answered publish is there; no answered ack is
delivered again; each delayed message comes into the log once; an output
published with an ack is there exactly if the ack holds; a rejected message is
one dead letter.
"""

import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("broker_worker.py")
WORKERS = 2
KILLS = 150  # Each.


@pytest.mark.slow
def test_a_broker_that_is_killed_hundreds_of_times_breaks_no_promise(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(tmp_path / f"data-{number}"), str(KILLS), str(2026 + number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(WORKERS)
    ]
    for process in processes:
        output, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors[-3000:]
        opened, published, delayed, acked, rejected = (int(word) for word in output.split())
        # It did work between the kills; most lives were long enough to open and compare.
        assert opened > KILLS // 4
        assert min(published, delayed, acked) > KILLS
        assert rejected > KILLS // 10
