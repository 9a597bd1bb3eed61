"""What every store promises: the same tests for a directory, S3 (SeaweedFS), PostgreSQL and etcd."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from tests.store import stores
from tests.store.seaweedfs import seaweedfs

from penstock.clock import SystemClock
from penstock.errors import InvalidValue, StoreRefused, StoreUnavailable, StoreUnsafe
from penstock.store.base import Store
from penstock.store.opening import open_store
from penstock.store.probe import probe, require_safe

WRITERS = 8


@pytest.fixture(scope="module", params=["directory", "s3", "postgresql", "etcd"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp(request.param)
    match request.param:
        case "s3":
            with seaweedfs(directory) as service:
                yield service.url
        case "postgresql":
            with stores.postgresql() as found:
                yield f"{found}?synchronous=off"
        case "etcd":
            with stores.etcd(directory) as found:
                yield found
        case _:
            yield f"file://{directory}/store"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url, SystemClock())
    for name in list(opened.list("")):
        opened.delete(name)
    yield opened
    opened.close()


def test_what_was_created_is_there_and_is_never_replaced(store: Store) -> None:
    assert store.get("wal/a/1") is None
    assert store.create("wal/a/1", b"first")
    assert not store.create("wal/a/1", b"second")
    assert not store.create("wal/a/1", b"first")
    assert store.get("wal/a/1") == b"first"


def test_one_of_many_writers_wins_each_name(url: str, store: Store) -> None:
    opened = [open_store(url, SystemClock()) for _ in range(WRITERS)]
    start = threading.Barrier(WRITERS)

    def create(number: int) -> list[bool]:
        start.wait()
        return [opened[number].create(f"meta/{name}", b"%d" % number) for name in range(20)]

    with ThreadPoolExecutor(WRITERS) as pool:
        won = list(pool.map(create, range(WRITERS)))

    for name in range(20):
        (winner,) = [number for number in range(WRITERS) if won[number][name]]
        assert store.get(f"meta/{name}") == b"%d" % winner
    for each in opened:
        each.close()


def test_any_bytes_and_sizes_come_back_as_they_went(store: Store) -> None:
    for size in (0, 1, 255, 4096, store.object_bytes_max // 64):
        data = bytes(number * 7 % 256 for number in range(size))
        assert store.create(f"sizes/{size}", data)
        assert store.get(f"sizes/{size}") == data


def test_names_are_listed_by_prefix(store: Store) -> None:
    names = {"wal/a/1", "wal/a/2", "wal/ab/1", "meta/1"}
    for name in names:
        store.create(name, b"x")

    assert set(store.list("")) == names
    assert set(store.list("wal/")) == names - {"meta/1"}
    assert set(store.list("wal/a/")) == {"wal/a/1", "wal/a/2"}
    assert set(store.list("wal/a")) == {"wal/a/1", "wal/a/2", "wal/ab/1"}
    assert list(store.list("snap/")) == []


def test_more_names_than_a_page_are_all_listed(store: Store) -> None:
    names = {f"many/{number}" for number in range(1001)}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.create(name, b""), names))

    assert set(store.list("many/")) == names


def test_an_object_is_overwritten_and_deleted(store: Store) -> None:
    store.overwrite("heartbeats/1", b"old")
    store.overwrite("heartbeats/1", b"new")
    assert store.get("heartbeats/1") == b"new"
    store.delete("heartbeats/1")
    store.delete("heartbeats/1")
    assert store.get("heartbeats/1") is None
    assert store.create("heartbeats/1", b"again")


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "../a", "a/.b", "a b", "ä", "x" * 513])
def test_a_bad_name_is_refused_before_the_store_is_asked(store: Store, name: str) -> None:
    with pytest.raises(InvalidValue):
        store.create(name, b"")


@pytest.mark.parametrize(
    "url", ["directory", "postgresql", "etcd", pytest.param("s3", marks=pytest.mark.soak)], indirect=True
)  # SeaweedFS answers some concurrent requests for one name only after one or two seconds.
def test_a_safe_store_passes_every_check_and_is_left_clean(url: str, store: Store) -> None:
    report = probe(lambda: open_store(url, SystemClock()))

    assert [check for check in report.checks if check.problem is not None] == []
    assert report.safe
    assert report.create_ms > 0
    assert list(store.list("probe/")) == []


class Forgetful:
    """A store that lets two writers win, as some object stores have done."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.url, self.object_bytes_max = store.url, store.object_bytes_max
        self.get, self.list, self.delete = store.get, store.list, store.delete
        self.overwrite, self.close = store.overwrite, store.close

    def create(self, name: str, data: bytes) -> bool:
        self._store.overwrite(name, data)
        return True


def test_a_store_that_lets_two_writers_win_is_refused(tmp_path: Path) -> None:
    def opened() -> Store:
        return Forgetful(open_store(f"file://{tmp_path}/store", SystemClock()))

    with pytest.raises(StoreUnsafe, match="4 of 4 concurrent writers created the same name"):
        require_safe(opened)


def test_many_nodes_can_open_a_new_postgresql_at_the_same_time() -> None:
    def create(number: int) -> bool:
        with closing(open_store(f"{url}?synchronous=off", SystemClock())) as store:
            return store.create(f"n{number}", b"x")

    with stores.postgresql() as url, ThreadPoolExecutor(16) as threads:
        assert all(threads.map(create, range(16)))


def test_postgresql_without_a_synchronous_standby_is_refused() -> None:
    with stores.postgresql() as url, pytest.raises(StoreUnsafe, match="synchronous_standby_names"):
        open_store(url, SystemClock())


@pytest.mark.parametrize("url", ["postgresql://127.0.0.1:1/x?synchronous=off", "etcd://127.0.0.1:1"])
def test_a_store_that_does_not_answer_is_unavailable(url: str) -> None:
    with pytest.raises(StoreUnavailable):
        open_store(url, SystemClock())


def test_options_of_a_bucket_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anna")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    store = open_store("s3://bucket/x?endpoint=http://127.0.0.1:1&allow_http=true", SystemClock())
    with pytest.raises(StoreUnavailable, match="check that it is up"):
        store.get("name")
    with pytest.raises(StoreRefused, match="endpiont"):
        open_store("s3://bucket/x?endpiont=http://127.0.0.1:1", SystemClock())
    with pytest.raises(StoreRefused, match="write the options as"):
        open_store("s3://bucket/x?endpoint", SystemClock())


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://anna:hidden@127.0.0.1:1/x",
        "etcd://anna:hid@den@127.0.0.1:1/x",
        "s3://anna:hidden@bucket/x?region",
        "s3://bucket/x?aws_secret_access_key=hidden&region",
        "redis://:hidden@127.0.0.1/x?password=hidden",
    ],
)
def test_credentials_are_not_in_messages(url: str) -> None:
    with pytest.raises((StoreUnavailable, StoreRefused, InvalidValue)) as raised:
        open_store(url, SystemClock()).get("x")
    assert "hid" not in str(raised.value)


def test_a_directory_takes_the_first_objects_of_a_folder_at_the_same_time(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/store", SystemClock())
    names = [f"{folder}/new/{number}" for folder in range(40) for number in range(6)]

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(lambda name: store.create(name, b"x"), names))


def test_a_directory_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreRefused, match="file"):
        open_store(f"file://{tmp_path}/file/store", SystemClock())


@pytest.mark.parametrize("url", ["", "ftp://host/x", "/var/lib", "file://host/x", "s3://", "etcd://"])
def test_a_url_of_no_store_is_refused_with_examples(url: str) -> None:
    with pytest.raises(InvalidValue, match="postgresql://"):
        open_store(url, SystemClock())
