"""Disks with little room, and publishing until there is none; the fixture ``tiny_disk`` has a megabyte."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import penstock
from penstock.errors import DiskFull


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Path]:
    """A file system of that size."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"this user may not mount a small file system: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True, timeout=10)


def publish_until_full(broker: penstock.Broker) -> list[bytes]:
    """Returns what was accepted until then."""
    accepted: list[bytes] = []
    while True:
        value = os.urandom(10_000)
        try:
            broker.publish("orders", value)
        except DiskFull:
            return accepted
        accepted.append(value)
