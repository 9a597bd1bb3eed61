"""kafkajs, where there is node: topics, batches, transactions, a group, and what its admin asks for.

``scripts/install-test-tools`` puts it into .tools."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from tests.frontends.kafka.conftest import Server

MODULES: Final = Path(__file__).parents[3] / ".tools" / "node_modules"
STORY: Final = Path(__file__).with_name("kafkajs.js")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here"),
    pytest.mark.skipif(
        not (MODULES / "kafkajs").exists(), reason="no kafkajs here; scripts/install-test-tools installs it"
    ),
]


def test_kafkajs_writes_reads_and_administers(kafka: Server) -> None:
    command = ["node", str(STORY), str(MODULES), kafka.address]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {
        "got": ["committed", "v0", "v1", "v2", "v3"],
        "settings": 1,
        "state": "Empty",
        "placed": 2,
        "acls": "SECURITY_DISABLED",
        "brokers": 1,
    }
