"""``penstock cluster probe``, as its user runs it."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.store.seaweedfs import seaweedfs

from penstock.clock import SystemClock
from penstock.errors import StoreUnavailable
from penstock.store.base import Store
from penstock.store.opening import open_store

TRIES = 60
CHECKS = ("create once", "create again", "read", "overwrite", "list", "delete")


def probe(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "penstock", "cluster", "probe", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_a_directory_is_reported_as_safe(tmp_path: Path) -> None:
    done = probe(f"file://{tmp_path}/store")

    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[1:-2] == [f"{check:<12}  ok" for check in CHECKS]
    assert f"file://{tmp_path}/store: safe to use; one create takes " in done.stdout


def test_a_store_that_cannot_be_reached_is_an_error_without_a_traceback() -> None:
    done = probe("s3://bucket/path?endpoint=http://127.0.0.1:1&region=eu-central-1&skip_signature=true")

    assert done.returncode == 1
    assert done.stdout == ""
    assert "s3://bucket/path" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.soak
def test_an_object_storage_service_is_reported_as_safe_and_credentials_are_not_shown(tmp_path: Path) -> None:
    with seaweedfs(tmp_path) as service:
        done = probe(service.url, "-o", "json")

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["store"] == "s3://penstock/store"
    assert report["safe"] is True
    assert [report[check] for check in CHECKS] == ["ok"] * len(CHECKS)
    assert "secret" not in done.stdout + done.stderr


@pytest.mark.soak
def test_objects_survive_the_loss_of_a_volume_server_and_more_can_be_written(tmp_path: Path) -> None:
    with seaweedfs(tmp_path) as service:
        store = open_store(service.url, SystemClock())
        before = {f"wal/{number}": b"%d" % number * 1000 for number in range(50)}
        for name, data in before.items():
            assert store.create(name, data)

        service.volume_server.kill()
        service.volume_server.wait()

        assert {name: store.get(name) for name in before} == before
        assert not any(store.create(name, b"other") for name in before)
        created = sum(_created(store, f"later/{number}") for number in range(20))
        assert created == 20


def _created(store: Store, name: str) -> bool:
    """Create the name, repeating requests whose outcome is unknown."""
    for _ in range(TRIES):
        try:
            return store.create(name, b"x") or store.get(name) == b"x"
        except StoreUnavailable:
            time.sleep(0.5)  # The master stops offering the volumes of a lost server after some heartbeats.
    return False
