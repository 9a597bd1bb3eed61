import gc
import os
import socket
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from tests.spark.cluster import bare_python

from penstock.errors import ExtraMissing
from penstock.spark.runtime import daemon, java
from penstock.spark.runtime import priority as patience
from penstock.spark.runtime.connections import DAEMON, Address, broker_at, close_all
from penstock.spark.runtime.shipping import archive
from penstock.spark.session import BY_FILE_SYSTEM

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fake_java(folder: Path, version: str) -> Path:
    """A home whose Java says it has this version, and otherwise tells its arguments."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    told = f"""echo 'openjdk version "{version}"' >&2"""
    program.write_text(f'#!/bin/sh\nif [ "$1" = -version ]; then {told}; else echo "$@"; fi\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_an_installed_java_that_is_new_enough_is_preferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake_java(tmp_path / "jdk", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.installed_java() == home / "bin" / "java"


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2"])
def test_an_old_java_is_passed_over_for_the_one_that_pip_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    home = fake_java(tmp_path / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", f"{home / 'bin'}")
    assert java.installed_java() is None
    packaged = java.packaged_java()
    assert packaged is not None
    assert str(packaged) in (java.java_home() / "bin" / "java").read_text()


def test_without_any_java_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "installed_java", lambda: None)
    monkeypatch.setattr(java, "packaged_java", lambda: None)
    with pytest.raises(
        ExtraMissing, match=r"Java 17 or newer is not installed; run: pip install 'penstock\[spark\]'"
    ):
        java.java_home()


def test_the_wrapper_drops_one_flag_and_keeps_every_word_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", "17")))
    told = subprocess.run(
        [java.java_home() / "bin" / "java", "-cp", "a  b", "--add-modules=jdk.incubator.vector", "Main"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "-cp a  b Main\n"


@pytest.mark.parametrize(("master", "behind"), [("local[2]", java.NICE), ("spark://there:7077", 0)])
def test_only_a_spark_that_works_on_this_machine_itself_lets_others_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str, behind: int
) -> None:
    home = fake_java(tmp_path / "jdk", "17")
    (home / "bin" / "java").write_text("#!/bin/sh\n[ $1 = -version ] && echo 'version \"17\"' >&2 || nice\n")
    monkeypatch.setenv("JAVA_HOME", str(home))

    words = [str(java.java_home() / "bin" / "java"), "SparkSubmit", "--conf", f"spark.master={master}"]
    told = subprocess.run(words, capture_output=True, text=True, check=True)

    assert int(told.stdout) == min(os.nice(0) + behind, 19)


def slice_ns() -> int:
    """What this thread asks for; 0 where the kernel knows no such thing."""
    attributes = patience.attributes()
    return 0 if attributes is None else attributes[patience.RUNTIME]


@pytest.mark.skipif(not slice_ns(), reason="Linux knows slices from 6.12 on")
def test_who_starts_something_patient_is_as_before_when_it_runs() -> None:
    before = patience.attributes()
    with patience.long_time_slices():
        within = slice_ns()

    assert within == patience.SLICE_NS
    assert patience.attributes() == before


@pytest.mark.skipif(not slice_ns(), reason="Linux knows slices from 6.12 on")
def test_the_workers_of_a_local_spark_are_patient(spark: "SparkSession") -> None:
    slices = spark.sparkContext.range(2, numSlices=2).map(lambda _: slice_ns()).collect()

    assert slices == [patience.SLICE_NS] * 2
    assert slice_ns() < patience.SLICE_NS


def test_a_machine_that_cannot_be_asked_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "CALLS", {})
    with patience.long_time_slices():
        assert patience.attributes() is None


def test_a_session_is_in_utc_and_takes_large_writes(spark: "SparkSession") -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch") == "2147483647"


def test_a_local_session_renames_checkpoints_without_the_help_of_programs(spark: "SparkSession") -> None:
    assert spark.conf.get("spark.sql.streaming.checkpointFileManagerClass", None) == BY_FILE_SYSTEM


def test_the_workers_of_a_local_session_are_started_by_our_daemon(spark: "SparkSession") -> None:
    def started_by(_: object) -> list[str]:
        return [sys.modules["__main__"].__spec__.name]  # type: ignore[union-attr]

    assert spark.sparkContext.range(1, numSlices=1).mapPartitions(started_by).collect() == [DAEMON]


def test_what_a_worker_has_to_say_goes_out_at_once_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def options(ours: socket.socket, _: bool) -> int:
        seen.append(ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        raise ArithmeticError

    seen: list[int] = []
    monkeypatch.setattr(daemon, "_worker", options)
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as ours:
        for _ in range(2):
            with pytest.raises(ArithmeticError):
                daemon.worker(ours, True)

            assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert seen == [0, 0], "meanwhile it is gathered"


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_worker_to_which_nobody_listens_any_more_ends_quietly(
    error: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hung_up(_: socket.socket, __: bool) -> int:
        raise error

    monkeypatch.setattr(daemon, "_worker", hung_up)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert daemon.worker(ours, True) == daemon.GONE


def test_a_worker_that_was_not_told_the_password_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(ours: socket.socket, _: bool) -> int:
        ours.close()
        return 1

    monkeypatch.setattr(daemon, "_worker", refused)
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as ours:
        assert daemon.worker(ours, False) == 1


def test_a_worker_may_be_asked_by_a_unix_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "_worker", lambda _, authenticated: 7 if authenticated else 8)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert daemon.worker(ours, True) == 7


def test_a_worker_leaves_out_modules_that_come_later_too(spark: "SparkSession", servers: str) -> None:
    def frozen(_: object) -> list[int]:
        counts = []
        for name in ("this_module", "this_module", "another_module"):
            sys.modules.setdefault(name, ModuleType(name))
            kept = [[number] for number in range(1000)]
            broker_at(Address(servers))
            counts.append(gc.get_freeze_count())
            del kept
        return counts

    [first, second, third] = spark.sparkContext.range(1, numSlices=1).mapPartitions(frozen).collect()

    assert second <= first, "nothing new has come"
    assert third >= second + 900


def test_a_worker_does_not_look_for_garbage_among_its_modules(spark: "SparkSession", servers: str) -> None:
    def frozen(_: object) -> list[int]:
        broker_at(Address(servers))
        return [gc.get_freeze_count()]

    before = gc.get_freeze_count()
    broker_at(Address(servers))
    [count] = spark.sparkContext.range(1, numSlices=1).mapPartitions(frozen).collect()
    close_all()

    assert count > 10_000
    assert gc.get_freeze_count() == before, "a program's own process is left as it is"


PARSE = """
from penstock.errors import ExtraMissing
from penstock.schemas.formats import parse
for kind, text in (("AVRO", '"long"'), ("JSON", "{}"), ("PROTOBUF", "CgF4IgMKAXg=")):
    try:
        print(parse(kind, text, {}).kind)
    except ExtraMissing as error:
        print(error.facts["what"], error.facts["extra"])
"""


@pytest.mark.parametrize(
    ("shipped", "told"),
    [
        (True, ["AVRO", "JSON", "PROTOBUF"]),
        (False, ["fastavro schema", "jsonschema_rs schema", "google schema"]),
    ],
)
def test_an_executor_has_the_libraries_of_schemas_or_the_error_names_the_extra(
    shipped: bool, told: list[str], tmp_path: Path
) -> None:
    with zipfile.ZipFile(archive(schema_libraries=shipped)) as packed:
        packed.extractall(tmp_path / "shipped")

    done = subprocess.run(
        [bare_python(tmp_path), "-c", PARSE],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "shipped")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout.splitlines() == told
