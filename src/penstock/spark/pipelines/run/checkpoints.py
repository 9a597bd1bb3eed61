"""Checkpoints of streaming queries in a bucket, for a Spark that has no jar for it.

    Spark's driver and state stores ── WebHDFS ──> CheckpointGateway ──> bucket

Spark writes checkpoints through a file system of Hadoop.  PySpark ships the one for
WebHDFS, a small HTTP protocol, but none for object stores.  This server, in the process of
the driver, translates WebHDFS into requests of the lake's client, so checkpoints use the
lake's credentials.  Files have the names that Hadoop's own connector would give them: a
query can continue later on a cluster that has the connector.

A rename is a copy and a delete, as with every object store.  Spark writes a file of the
offset log under a temporary name and renames it, so a file is complete or absent.  Only
one run writes a checkpoint: a run of the same name is refused while it lives.

Folders exist if there is something in them, or if this process has made them.

A local Spark reaches the server on loopback, the executors of a cluster at the address at which they also
reach the driver.  Requests must know the random first part of its path, and like those between driver and
executors they are not encrypted.

Limits: files are kept in memory while they are written or read (``FILE_BYTES_MAX``); the
state of a partition is written as one small file per batch, and all of it goes through the driver's
machine.  Spark Connect is not supported: its server needs a connector of Hadoop.
"""

import json
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from pyarrow import fs

from penstock.config.server import LAKE_SCHEMES
from penstock.errors import PenstockError
from penstock.spark.lake import storage
from penstock.spark.session import BY_FILE_SYSTEM, CHECKPOINTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_BYTES_MAX: Final = 1 << 30
BLOCK_BYTES: Final = 128 * 1024 * 1024  # What WebHDFS says of every file; nobody relies on it.
BUFFER_BYTES: Final = 1 << 16  # Without a buffer, Arrow passes on what the client does not take.
SECOND_STEP: Final = "second"  # A parameter of our own: WebHDFS sends and gets data after a redirect.

Answer = dict[str, Any]


@contextmanager
def checkpoint_for(spark: "SparkSession", location: str) -> Iterator[str]:
    """The location of a checkpoint as this session can open it, within the block."""
    scheme, separator, rest = location.partition("://")
    if (
        not separator or scheme not in LAKE_SCHEMES or not hasattr(spark, "_jsc")
    ):  # Connect: its server knows.
        yield location
    elif _has_file_system(spark, scheme):
        yield location
    elif scheme == "s3" and _has_file_system(spark, "s3a"):
        yield f"s3a://{rest}"
    else:
        # Spark's default asks a file system for more than the gateway has (``spark/session.py``).
        spark.conf.set(CHECKPOINTS, BY_FILE_SYSTEM)
        with CheckpointGateway(storage.located(location), _host(spark)).running() as url:
            yield url


def _host(spark: "SparkSession") -> str:
    """Where the tasks of a session reach this process."""
    local = (spark.sparkContext.master or "").startswith("local")
    return "127.0.0.1" if local else spark.sparkContext.getConf().get("spark.driver.host", "127.0.0.1")


def _hadoop(spark: "SparkSession") -> Any:
    """Hadoop's classes; there is no other way to them."""
    jvm: Any = spark._jvm  # noqa: SLF001
    return jvm.org.apache.hadoop


def _has_file_system(spark: "SparkSession", scheme: str) -> bool:
    from py4j.protocol import Py4JJavaError

    configuration = spark._jsc.hadoopConfiguration()  # noqa: SLF001
    try:
        _hadoop(spark).fs.FileSystem.getFileSystemClass(scheme, configuration)
    except Py4JJavaError:
        return False
    return True


class CheckpointGateway:
    """Serves one folder of a bucket; ``url`` is the location to give to Spark."""

    def __init__(self, root: str, host: str = "127.0.0.1") -> None:
        self.root: Final = root
        self.secret: Final = secrets.token_urlsafe(16)
        self.folders: set[str] = {""}
        gateway = self

        class Handler(_Handler):
            served = gateway

        self._server = ThreadingHTTPServer((host, 0), Handler)
        self._server.daemon_threads = True
        self.url: Final = f"webhdfs://{host}:{self._server.server_port}/{self.secret}"

    def path_of(self, inside: str) -> str:
        return f"{self.root}/{inside}".rstrip("/")

    @contextmanager
    def running(self) -> Iterator[str]:
        """Answer requests within the block, under the URL."""
        thread = threading.Thread(target=self._server.serve_forever, name="checkpoints", daemon=True)
        thread.start()
        try:
            yield self.url
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    # What WebHDFS asks for.

    def status(self, inside: str) -> Answer:
        system, path = storage.filesystem_of(self.path_of(inside))
        info = system.get_file_info(path)
        if info.type == fs.FileType.NotFound and inside not in self.folders:
            raise FileNotFoundError(inside)
        return _status(info, "")

    def listed(self, inside: str) -> list[Answer]:
        system, path = storage.filesystem_of(self.path_of(inside))
        found = {info.base_name: _status(info, info.base_name) for info in _children(system, path)}
        prefix = f"{inside}/" if inside else ""
        for folder in self.folders:
            name = folder.removeprefix(prefix)
            if folder.startswith(prefix) and name and "/" not in name:
                found.setdefault(name, _folder(name))
        if not found:
            return [self.status(inside)] if self._is_file(inside) else self._empty(inside)
        return [found[name] for name in sorted(found)]

    def _is_file(self, inside: str) -> bool:
        return storage.exists(self.path_of(inside))

    def _empty(self, inside: str) -> list[Answer]:
        if inside not in self.folders:
            raise FileNotFoundError(inside)
        return []

    def make_folder(self, inside: str) -> None:
        parts = inside.split("/")
        self.folders.update("/".join(parts[: count + 1]) for count in range(len(parts)))

    def write(self, inside: str, data: bytes, *, overwrite: bool) -> None:
        if not overwrite and self._is_file(inside):
            raise FileExistsError(inside)
        system, path = storage.filesystem_of(self.path_of(inside))
        with system.open_output_stream(path, buffer_size=BUFFER_BYTES) as target:
            target.write(data)

    def read(self, inside: str, offset: int, length: int | None) -> bytes:
        system, path = storage.filesystem_of(self.path_of(inside))
        with system.open_input_file(path) as source:
            source.seek(offset)
            return bytes(source.read() if length is None else source.read(length))

    def rename(self, inside: str, target: str) -> bool:
        if not self._is_file(inside):  # Spark renames no folders.
            return False
        system, path = storage.filesystem_of(self.path_of(inside))
        system.move(path, storage.filesystem_of(self.path_of(target))[1])
        return True

    def delete(self, inside: str) -> bool:
        system, path = storage.filesystem_of(self.path_of(inside))
        names = (
            [path] if self._is_file(inside) else [info.path for info in _children(system, path, deep=True)]
        )
        for name in names:
            system.delete_file(name)
        made = {folder for folder in self.folders if f"{folder}/".startswith(f"{inside}/")}
        self.folders -= made
        return bool(names or made)


def _children(system: fs.FileSystem, path: str, *, deep: bool = False) -> list[fs.FileInfo]:
    found = system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=deep))
    return [info for info in found if not deep or info.type == fs.FileType.File]


def _status(info: fs.FileInfo, name: str) -> Answer:
    if info.type != fs.FileType.File:
        return _folder(name)
    changed_ms = 0 if info.mtime_ns is None else info.mtime_ns // 1_000_000
    return _folder(name) | {"type": "FILE", "length": info.size, "modificationTime": changed_ms}


def _folder(name: str) -> Answer:
    return {
        "pathSuffix": name, "type": "DIRECTORY", "length": 0, "modificationTime": 0, "accessTime": 0,
        "owner": "penstock", "group": "penstock", "permission": "700", "replication": 1,
        "blockSize": BLOCK_BYTES, "fileId": 0, "childrenNum": 0, "storagePolicy": 0,
    }  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    served: CheckpointGateway
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(
            {
                "GETFILESTATUS": self._status,
                "GETFILEBLOCKLOCATIONS": self._blocks,
                "LISTSTATUS": self._list,
                "OPEN": self._open,
            }
        )

    def do_PUT(self) -> None:
        self._answer({"CREATE": self._create, "MKDIRS": self._mkdirs, "RENAME": self._rename})

    def do_DELETE(self) -> None:
        self._answer({"DELETE": self._delete})

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name.
        """Requests are not logged: their paths contain the secret."""

    def _answer(self, operations: dict[str, Callable[[str, dict[str, str]], None]]) -> None:
        parts = urlsplit(self.path)
        prefix, _, rest = unquote(parts.path).removeprefix("/webhdfs/v1/").partition("/")
        wanted = dict(parse_qsl(parts.query))
        operation = operations.get(wanted.get("op", "").upper())
        try:
            if not secrets.compare_digest(prefix.encode(), self.served.secret.encode()):
                self._fail(403, "org.apache.hadoop.security.AccessControlException", "wrong path")
            elif operation is None:
                self._fail(
                    400, "java.lang.UnsupportedOperationException", f"{wanted.get('op')} is not supported"
                )
            else:
                operation(rest.strip("/"), wanted)
        except FileNotFoundError as error:
            self._fail(404, "java.io.FileNotFoundException", str(error))
        except FileExistsError as error:
            self._fail(403, "org.apache.hadoop.fs.FileAlreadyExistsException", str(error))
        except (PenstockError, OSError) as error:
            self._fail(500, "java.io.IOException", storage.sentence_of(error))

    def _status(self, inside: str, _: dict[str, str]) -> None:
        self._send({"FileStatus": self.served.status(inside)})

    def _blocks(self, _inside: str, _wanted: dict[str, str]) -> None:
        self._send({"BlockLocations": {"BlockLocation": []}})

    def _list(self, inside: str, _: dict[str, str]) -> None:
        self._send({"FileStatuses": {"FileStatus": self.served.listed(inside)}})

    def _open(self, inside: str, wanted: dict[str, str]) -> None:
        if SECOND_STEP not in wanted:
            self.served.status(inside)
            self._redirect(wanted)
            return
        length = int(wanted["length"]) if "length" in wanted else None
        self._send(self.served.read(inside, int(wanted.get("offset", "0")), length))

    def _create(self, inside: str, wanted: dict[str, str]) -> None:
        if SECOND_STEP not in wanted:
            self._redirect(wanted)
            return
        self.served.write(inside, self._body(), overwrite=wanted.get("overwrite") == "true")
        self._send(b"", 201)

    def _mkdirs(self, inside: str, _: dict[str, str]) -> None:
        self.served.make_folder(inside)
        self._send({"boolean": True})

    def _rename(self, inside: str, wanted: dict[str, str]) -> None:
        target = wanted["destination"].strip("/").partition("/")[2]
        self._send({"boolean": self.served.rename(inside, target)})

    def _delete(self, inside: str, _: dict[str, str]) -> None:
        self._send({"boolean": self.served.delete(inside)})

    def _redirect(self, wanted: dict[str, str]) -> None:
        path = urlsplit(self.path).path
        query = urlencode(wanted | {SECOND_STEP: "true"}, quote_via=quote)
        self.send_response(307)
        self.send_header("Location", f"http://{self.headers['Host']}{path}?{query}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(self._checked(int(self.headers.get("Content-Length") or 0)))
        data = bytearray()
        while size := int(self.rfile.readline().split(b";")[0], 16):
            data += self.rfile.read(self._checked(len(data) + size) - len(data))
            self.rfile.readline()
        self.rfile.readline()
        return bytes(data)

    def _checked(self, size: int) -> int:
        if size > FILE_BYTES_MAX:
            self.close_connection = True
            raise OSError(
                f"a file of a checkpoint has more than {FILE_BYTES_MAX:,} bytes; use Hadoop's connector"
            )
        return size

    def _send(self, answer: Answer | bytes, status: int = 200) -> None:
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)  # With a content type, Hadoop's client needs a class that PySpark lacks.
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _fail(self, status: int, kind: str, message: str) -> None:
        name = kind.rpartition(".")[2]
        self._send(
            {"RemoteException": {"exception": name, "javaClassName": kind, "message": message}}, status
        )
