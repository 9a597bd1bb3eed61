"""KQueue's own Go client and its demo, unmodified, where there is Go.

The module is downloaded, or a checkout of it is named by PENSTOCK_KQUEUE_GO.  The demo connects to
localhost:6379, so server and demo run in a network namespace of their own, where that port is free.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

MODULE: Final = "github.com/pckrishnadas88/k-queue-go"
STORY: Final = """\
ip link set lo up
"$PYTHON" -m penstock serve --data :memory: --native 127.0.0.1:6379 --text off --status off --http off \
    --kafka off > server.txt & server=$!
until grep -qs ready server.txt; do kill -0 $server || exit 1; sleep 0.05; done
./demo; code=$?
kill $server; wait $server
exit $code
"""

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go here"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="there is no unshare here"),
]


def checkout(tmp_path: Path) -> Path:
    """The sources of the module, in a directory that may be written."""
    given = os.environ.get("PENSTOCK_KQUEUE_GO")
    if given is None:
        command = ["go", "mod", "download", "-json", f"{MODULE}@latest"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            pytest.skip(f"the module {MODULE} cannot be downloaded; set PENSTOCK_KQUEUE_GO to a checkout")
        given = json.loads(done.stdout)["Dir"]
    shutil.copytree(given, tmp_path / "kqueue", copy_function=shutil.copyfile)
    return tmp_path / "kqueue"


def test_the_demo_of_kqueues_go_client(tmp_path: Path) -> None:
    source = checkout(tmp_path)
    build = ["go", "build", "-buildvcs=false", "-o", str(tmp_path / "demo"), "./pkg/client"]
    subprocess.run(build, cwd=source, check=True, timeout=600)

    done = subprocess.run(
        ["unshare", "-rn", "sh", "-c", STORY],
        cwd=tmp_path, env={**os.environ, "PYTHON": sys.executable}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "Broker: OK Subscribed to new_test_topic" in done.stderr
    assert re.search(r"Broker: OK Published [0-9a-f-]{36}\n", done.stderr)
