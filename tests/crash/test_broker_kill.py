"""Real processes on a real directory, killed with SIGKILL at random moments, hundreds of times in all.

The work, the killing and the comparing are in ``broker_worker.py``; two of
them run side by side, each on a directory of its own.  Promised, and compared
after every kill: every answered publish is there; no answered ack is
delivered again; each delayed message comes into the log once; an output
published with an ack is there exactly if the ack holds; a rejected message is
one dead letter.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
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
            start_new_session=True,  # So that nothing is left of it, whatever happens.
        )
        for number in range(WORKERS)
    ]
    try:
        results = [(process.communicate(timeout=240), process.returncode) for process in processes]
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    for (output, errors), code in results:
        assert code == 0, errors[-3000:]
        opened, published, delayed, acked, rejected = (int(word) for word in output.split())
        # It did work between the kills; most lives were long enough to open and compare.
        assert opened > KILLS // 4
        assert min(published, delayed, acked) > KILLS
        assert rejected > KILLS // 10
