"""Which cluster a store belongs to, and the mistakes of operators that this notices."""

from pathlib import Path

import msgspec
import pytest

from penstock.cluster.identity import FORMAT, NAME, found_or_join
from penstock.cluster.store import ThreadedStore
from penstock.errors import ClusterMismatch, ClusterTooNew, CorruptionError
from penstock.store.directory import DirectoryStore
from penstock.testing.clock import ManualClock


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(str(tmp_path), ManualClock())


def test_every_node_finds_what_the_first_one_wrote(store: DirectoryStore) -> None:
    first = found_or_join(store, "shop")

    assert found_or_join(store, "shop") == first
    assert len(first.secret) == 64


def test_two_clusters_have_different_generations_and_secrets(tmp_path: Path) -> None:
    one = found_or_join(DirectoryStore(str(tmp_path / "one"), ManualClock()), "shop")
    other = found_or_join(DirectoryStore(str(tmp_path / "other"), ManualClock()), "shop")

    assert one.generation != other.generation
    assert one.secret != other.secret


def test_a_store_of_another_cluster_is_refused(store: DirectoryStore) -> None:
    found_or_join(store, "shop")

    with pytest.raises(ClusterMismatch, match="belongs to the cluster 'shop', not to 'bank'"):
        found_or_join(store, "bank")


def test_a_newer_format_is_refused(store: DirectoryStore) -> None:
    newer = msgspec.structs.replace(found_or_join(store, "shop"), format=FORMAT + 1)
    store.overwrite(NAME, msgspec.json.encode(newer))

    with pytest.raises(ClusterTooNew, match="uses format 2"):
        found_or_join(store, "shop")


def test_a_damaged_identity_is_an_error(store: DirectoryStore) -> None:
    store.create(NAME, b"{")

    with pytest.raises(CorruptionError):
        found_or_join(store, "shop")


async def test_objects_have_the_generation_in_front_of_their_names(store: DirectoryStore) -> None:
    threaded = ThreadedStore(store, "g1/")

    assert await threaded.create("wal/a/0", b"x")
    assert not await threaded.create("wal/a/0", b"y")
    await threaded.overwrite("beat/a", b"z")

    assert await threaded.get("wal/a/0") == b"x"
    assert await threaded.list("wal/") == ["wal/a/0"]
    assert sorted(store.list("")) == ["g1/beat/a", "g1/wal/a/0"]
    await threaded.delete("wal/a/0")
    assert await threaded.get("wal/a/0") is None
    threaded.close()
