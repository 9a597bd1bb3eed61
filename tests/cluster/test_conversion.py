"""A data directory becomes a cluster and back, and nothing is lost; also if it is interrupted anywhere."""

import copy
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.cluster.directory_facts import PARTITIONS, facts, fill, repeated
from tests.cluster.nodes import TOPIC, Nodes, node_server
from tests.server.process import until

import penstock
from penstock.broker.journal.ledger import Ledger
from penstock.broker.kafka.transactions import LOG_SETTINGS
from penstock.broker.topic.catalogue import MANIFEST
from penstock.cli.main import main
from penstock.clock import SystemClock
from penstock.cluster.conversion.converting import convert
from penstock.cluster.conversion.leaving import leave
from penstock.errors import (
    ClusterExists,
    ClusterMissing,
    CorruptionError,
    DirectoryInUse,
    DirectoryUnusable,
    StoreRefused,
)
from penstock.groups.transactions import Transaction
from penstock.model.schemas import NewSchema
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import Crash, CrashDisk, Fault, FaultyFiles
from penstock.types import TRANSACTIONS

CLOCK = SystemClock()
STRIDE = 4 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 1  # More places in a soak.
DATA = "data"


class MemoryStore:
    """Objects in memory; from request number ``at`` on the process is gone, before or after that request."""

    url = "memory://"
    object_bytes_max = 1 << 20

    def __init__(self, objects: dict[str, bytes] | None = None, at: int = 0, *, done: bool = False) -> None:
        self.objects = {} if objects is None else objects
        self.requests = 0
        self._at = at
        self._done = done

    def _request(self, work: Callable[[], Any]) -> Any:
        self.requests += 1
        if self._at and self.requests >= self._at:
            if self._done and self.requests == self._at:
                work()
            raise Crash
        return work()

    def create(self, name: str, data: bytes) -> bool:
        return bool(self._request(lambda: self.objects.setdefault(name, data) is data))

    def get(self, name: str) -> bytes | None:
        found: bytes | None = self._request(lambda: self.objects.get(name))
        return found

    def list(self, prefix: str) -> Iterator[str]:
        yield from self._request(lambda: [name for name in self.objects if name.startswith(prefix)])

    def delete(self, name: str) -> None:
        self._request(lambda: self.objects.pop(name, None))

    def overwrite(self, name: str, data: bytes) -> None:
        self._request(lambda: self.objects.update({name: data}))

    def close(self) -> None: ...


def converted(files: Any, store: MemoryStore) -> None:
    convert(DATA, store, "shop", 1, CLOCK, lambda _: None, files)


def left(files: Any, store: MemoryStore) -> None:
    leave(DATA, store, "shop", 1, CLOCK, files)


def open_directory(files: Any) -> TestBroker:
    return TestBroker.open(DATA, files=files, clock=ManualClock(CLOCK.wall_ms()))


@pytest.fixture(scope="module")
def plain() -> tuple[CrashDisk, dict[Any, Any]]:
    """The disk of a server that has stopped, and what it had."""
    disk = CrashDisk()
    with open_directory(disk) as broker:
        fill(broker)
    with open_directory(disk) as broker:
        found = facts(broker)
    assert found["dead"]
    assert all(found["orders", group, "lags"] for group in ("audit", "billing", "shipping"))
    return disk, found


def interrupted(work: Callable[[], None]) -> bool:
    """Run until it ends, or the process does."""
    crashed = False
    try:
        work()
    except* Crash:
        crashed = True
    return crashed


def check(disk: CrashDisk, expected: dict[Any, Any]) -> None:
    with open_directory(disk) as broker:
        assert facts(broker) == expected
        assert repeated(broker) == (True, True, True)


def test_a_directory_comes_back_from_a_cluster_as_it_was(plain: tuple[CrashDisk, dict[Any, Any]]) -> None:
    disk, expected = copy.deepcopy(plain)
    store = MemoryStore()

    converted(disk, store)
    with pytest.raises(DirectoryUnusable, match="not the data directory of a server"):
        converted(disk, store)
    left(disk, store)

    check(disk, expected)


def test_a_conversion_that_is_interrupted_at_any_request_is_repeated(
    plain: tuple[CrashDisk, dict[Any, Any]],
) -> None:
    count = MemoryStore()
    converted(copy.deepcopy(plain[0]), count)
    for at in range(1, count.requests + 1, 8 // STRIDE):
        for done in (False, True):
            disk, expected = copy.deepcopy(plain)
            store = MemoryStore(at=at, done=done)

            assert interrupted(lambda disk=disk, store=store: converted(disk, store))  # type: ignore[misc]
            disk.kill()
            healthy = MemoryStore(store.objects)
            converted(disk, healthy)
            left(disk, healthy)

            check(disk, expected)


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
def test_a_conversion_that_is_interrupted_at_any_file_operation_is_repeated(
    plain: tuple[CrashDisk, dict[Any, Any]], power: bool
) -> None:
    files = FaultyFiles(copy.deepcopy(plain[0]))
    converted(files, MemoryStore())
    for at in range(1 + power, len(files.operations) + 1, 28 // STRIDE):
        disk, expected = copy.deepcopy(plain)
        store = MemoryStore()
        faulty = FaultyFiles(disk, at=at, fault=Fault.TEAR if at % 2 else Fault.AFTER)

        assert interrupted(lambda faulty=faulty, store=store: converted(faulty, store))  # type: ignore[misc]
        end(disk, at, power)
        if disk.exists(f"{DATA}/penstock.json") or disk.exists(f"{DATA}/conversion.json"):
            converted(disk, store)  # Else it was done: only its last answer is missing.
        left(disk, store)

        check(disk, expected)


def end(disk: CrashDisk, seed: int, power: bool) -> None:
    if power:
        disk.power_cut(Random(seed))
    else:
        disk.kill()


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
def test_leaving_that_is_interrupted_at_any_file_operation_is_repeated(
    plain: tuple[CrashDisk, dict[Any, Any]], power: bool
) -> None:
    start, expected = copy.deepcopy(plain)
    objects = MemoryStore()
    converted(start, objects)
    files = FaultyFiles(copy.deepcopy(start))
    left(files, MemoryStore(dict(objects.objects)))
    count = len(files.operations)

    # The end of it, after the entry that ends the cluster, is tried more often.
    for at in (*range(1 + power, count, 71 // STRIDE), *range(count - 24 + power, count, 4 // STRIDE)):
        disk, store = copy.deepcopy(start), MemoryStore(dict(objects.objects))
        faulty = FaultyFiles(disk, at=at, fault=Fault.TEAR if at % 2 else Fault.AFTER)
        interrupted(lambda faulty=faulty, store=store: left(faulty, store))  # type: ignore[misc]
        end(disk, at, power)
        if not disk.exists(f"{DATA}/penstock.json") or disk.exists(f"{DATA}/leaving"):
            left(disk, store)
        check(disk, expected)


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_leaving_that_is_interrupted_at_any_request_is_repeated(
    plain: tuple[CrashDisk, dict[Any, Any]], done: bool
) -> None:
    start, expected = copy.deepcopy(plain)
    objects = MemoryStore()
    converted(start, objects)
    at = 1
    while True:
        disk, store = copy.deepcopy(start), MemoryStore(dict(objects.objects), at, done=done)
        if not interrupted(lambda disk=disk, store=store: left(disk, store)):  # type: ignore[misc]
            break  # It ends with fewer requests.
        disk.kill()
        left(disk, MemoryStore(store.objects))
        check(disk, expected)
        at += 8 // STRIDE
    assert at > 40


def test_an_interrupted_conversion_goes_on_in_the_same_cluster_only(
    plain: tuple[CrashDisk, dict[Any, Any]],
) -> None:
    """The first attempt may have founded it, and then the messages would be in two clusters."""
    start, expected = copy.deepcopy(plain)
    store, other = MemoryStore(), MemoryStore()
    other.url = "memory://other"
    files = FaultyFiles(copy.deepcopy(start))
    converted(files, MemoryStore())
    cleared = next(at for at, name in enumerate(files.operations, 1) if "before-cluster-" in name)
    disk = copy.deepcopy(start)
    assert interrupted(lambda: converted(FaultyFiles(disk, at=cleared, fault=Fault.BEFORE), store))
    disk.kill()

    with pytest.raises(DirectoryUnusable, match="'shop' in memory:// was interrupted; repeat that"):
        converted(disk, other)
    assert other.objects == {}
    with pytest.raises(DirectoryUnusable, match="repeat that"):
        convert(DATA, store, "another", 1, CLOCK, lambda _: None, disk)

    converted(disk, store)
    left(disk, store)
    check(disk, expected)


def test_a_registry_that_is_larger_than_an_object_is_refused_before_anything_is_done() -> None:
    disk, store = CrashDisk(), MemoryStore()
    with open_directory(disk) as broker:
        symbols = ", ".join(f'"S{at}"' for at in range(1000))
        broker.register_schema(
            "colours-value", NewSchema(schema=f'{{"type": "enum", "name": "E", "symbols": [{symbols}]}}')
        )
    store.object_bytes_max = 8192

    with pytest.raises(StoreRefused, match="an object up to 8192"):
        converted(disk, store)

    assert store.objects == {}
    with open_directory(disk) as broker:
        assert [each.subject for each in broker.schemas()] == ["colours-value"]


def test_a_cluster_with_a_decided_transaction_is_not_left() -> None:
    disk, store = CrashDisk(), MemoryStore()
    with open_directory(disk) as broker:
        broker._driver.run(broker._core.topics.ensure(TRANSACTIONS, LOG_SETTINGS))
        topic = broker._core.state.topics[TRANSACTIONS]
        decided = Transaction(1, 0, 60_000, CLOCK.wall_ms(), "committing")
        Ledger(topic.partitions[3].log, CLOCK).put("billing", decided)
    converted(disk, store)

    with pytest.raises(
        DirectoryUnusable, match="the Kafka transaction of 'billing' is decided but not finished"
    ):
        left(disk, store)


def test_each_wrong_state_has_its_own_error(plain: tuple[CrashDisk, dict[Any, Any]]) -> None:
    disk, _ = copy.deepcopy(plain)
    store, killed = MemoryStore(), MemoryStore(at=30)
    lock = disk.lock(f"{DATA}/LOCK")
    with pytest.raises(DirectoryInUse):
        converted(disk, store)
    lock.release()
    with pytest.raises(ClusterMissing, match="there is no cluster in memory://"):
        leave("elsewhere", store, "shop", 1, CLOCK, disk)
    with pytest.raises(DirectoryUnusable, match="without a cluster already"):
        left(disk, store)
    assert interrupted(lambda: converted(disk, killed))
    disk.kill()
    with pytest.raises(DirectoryUnusable, match="penstock cluster convert was interrupted; run it again"):
        open_directory(disk)
    converted(disk, store)
    with pytest.raises(ClusterExists, match="the cluster 'shop' is in memory:// already"):
        converted(copy.deepcopy(plain[0]), store)
    damaged = copy.deepcopy(plain[0])
    [segment] = [name for name in damaged.list(f"{DATA}/topics/last/0") if name.endswith(".log")]
    damaged.damage(f"{DATA}/topics/last/0/{segment}", lambda data: data[:200] + b"\0" * 20 + data[220:])
    with pytest.raises(CorruptionError):
        converted(damaged, MemoryStore())


# Real processes.


def arguments(folder: Path) -> list[str]:
    return [
        "--data", str(folder / "node-1" / "data"), "--cluster", "shop", "--store", f"file://{folder}/store",
        "--node", "1",
    ]  # fmt: skip


def test_a_server_becomes_a_cluster_grows_and_becomes_a_server_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "node-1" / "data"
    with penstock.open(str(data)) as broker:
        fill(broker)
    with penstock.open(str(data)) as broker:
        expected = facts(broker)

    assert main(["cluster", "convert", *arguments(tmp_path)]) == 0
    assert "converted 4 topics with 8 partitions" in capsys.readouterr().err

    (tmp_path / "node-2").mkdir()
    store = f"file://{tmp_path}/store"
    with node_server(tmp_path / "node-1", store, 1) as first:
        with penstock.connect(first.url) as broker:
            assert facts(broker) == expected
            assert repeated(broker) == (True, True, True)
            assert not broker.publish_staged("orders", "job", 5, {}).duplicate
            with node_server(tmp_path / "node-2", store, 2) as second:
                broker.move_partition("orders", 1, 2)
                broker.publish("orders", b"in the cluster", partition=1)
                assert main(["cluster", "leave", *arguments(tmp_path)]) == 1
                assert "DIRECTORY_IN_USE" in capsys.readouterr().err
                second.kill()
            until(lambda: all(each.node == 1 for each in broker.cluster_info().partitions))
            until(lambda: len(broker.describe_topic("orders").partitions) == PARTITIONS)
            expected = facts(broker)
        first.kill()

    assert main(["cluster", "leave", *arguments(tmp_path)]) == 0
    with penstock.open(str(data)) as broker:
        assert facts(broker) == expected
        assert repeated(broker) == (True, True, True)
    refused = node_server(tmp_path / "node-2", store, 2)
    with pytest.raises(AssertionError, match="did not start"):
        refused.start()
    assert "was turned back into the data directory of node 1, and has ended" in refused.log()


def test_a_cluster_with_a_running_node_is_not_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Nodes(tmp_path, f"file://{tmp_path}/store", count=2) as nodes:
        with nodes.connect(1) as broker:
            broker.create_topic(TOPIC, partitions=2)
        nodes.servers[0].stop()

        assert main(["cluster", "leave", *arguments(tmp_path)]) == 1

        assert "node 2 is running; stop all nodes of the cluster first" in capsys.readouterr().err
        with nodes.connect(2) as broker:
            broker.publish(TOPIC, b"goes on")
        nodes.servers[0].start()  # What the command has begun is in nobody's way.


def test_commands_that_are_killed_are_repeated(tmp_path: Path) -> None:
    data = tmp_path / "node-1" / "data"
    with penstock.open(str(data)) as broker:
        fill(broker)
    with penstock.open(str(data)) as broker:
        expected = facts(broker)
    chance = Random(21)

    for command in ("convert", "leave"):
        for _ in range(3):
            words = [sys.executable, "-m", "penstock", "cluster", command, *arguments(tmp_path)]
            process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0.2, 0.9))
            process.send_signal(signal.SIGKILL)
            if process.wait() == 0:
                break
        else:
            main(["cluster", command, *arguments(tmp_path)])  # Refused if the last one was killed at its end.
        assert (data / MANIFEST).exists() == (command == "leave")

    with penstock.open(str(data)) as broker:
        assert facts(broker) == expected
        assert repeated(broker) == (True, True, True)


def test_nobody_joins_a_cluster_that_was_left(plain: tuple[CrashDisk, dict[Any, Any]]) -> None:
    disk, expected = copy.deepcopy(plain)
    store = MemoryStore()
    converted(disk, store)
    left(disk, store)

    leave("elsewhere", store, "shop", 2, CLOCK, disk)  # Its directory was lost: the store still has it all.

    with TestBroker.open("elsewhere", files=disk, clock=ManualClock(CLOCK.wall_ms())) as broker:
        assert facts(broker) == expected
    with pytest.raises(ClusterExists):
        converted(disk, store)
