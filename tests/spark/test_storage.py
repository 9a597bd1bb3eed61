"""What a store says when it fails, in our words: one sentence, with the cause in it."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from penstock.errors import LakeDamaged, LakeUnreachable, LakeUnusable
from penstock.spark.lake import storage
from penstock.spark.lake.delta import app_name, create_table, translated_errors
from penstock.spark.lake.storage import SENTENCE_MAX, sentence_of
from penstock.spark.lake.table import LakeTable

REFUSED = "tcp connect error ↳ Connection refused (os error 111)"
ANSWER = b"<?xml version='1.0'?>\n<Error><Code>SlowDown</Code>\n<Message>the store is full.</Message></Error>"


class Failing(BaseHTTPRequestHandler):
    """A store that answers everything with an error."""

    status = 500
    missing_bytes = 0  # Of the answer, when the store ends.

    def do_GET(self) -> None:
        """Whatever is asked."""
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(ANSWER) + self.missing_bytes))
        self.send_header("Last-Modified", "Mon, 16 Nov 2026 12:00:00 GMT")
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name.
        """Nothing."""


class Ending(Failing):
    """A store that ends while it answers."""

    status = 200
    missing_bytes = 1


@contextmanager
def served(store: type[Failing]) -> Iterator[str]:
    """Where a store listens."""
    with ThreadingHTTPServer(("127.0.0.1", 0), store) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def options_of(store: str, retries: int) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": store,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "here",
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "max_retries": str(retries),
    }


def test_a_store_that_does_not_respond_is_tried_again_later() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    with (
        pytest.raises(LakeUnreachable, match="Connection refused") as failure,
        translated_errors("s3://lake"),
    ):
        DeltaTable("s3://lake/orders", storage_options=options_of(f"http://127.0.0.1:{port}", retries=1))

    assert failure.value.retryable


def test_a_store_that_ends_while_it_answers_is_tried_again_later() -> None:
    with (
        served(Ending) as store,
        pytest.raises(LakeUnreachable, match="end of file before message length reached"),
        translated_errors("s3://lake/orders"),
    ):
        DeltaTable("s3://lake/orders", storage_options=options_of(store, retries=0))


def test_the_error_of_a_store_keeps_what_explains_it() -> None:
    with (
        served(Failing) as store,
        pytest.raises(LakeUnusable) as failure,
        translated_errors("s3://lake/orders"),
    ):
        DeltaTable("s3://lake/orders", storage_options=options_of(store, retries=0))

    sentence = str(failure.value)
    assert "Generic S3 error" in sentence
    assert "500 Internal Server Error" in sentence
    assert "SlowDown the store is full" in sentence
    assert not {"\n", "\x1b", "<"} & set(sentence)


@pytest.mark.parametrize(
    "block", [pytest.param(storage.reading, id="reading"), pytest.param(storage.writing, id="writing")]
)
def test_a_file_of_a_store_that_is_away_is_not_damaged(
    block: Callable[[str], AbstractContextManager[None]],
) -> None:
    with pytest.raises(LakeUnreachable, match="Connection refused"), block("s3://lake/orders/1.parquet"):
        raise OSError(f"Generic S3 error ↳ after 10 retries, max_retries: 10 ↳ {REFUSED}")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        pytest.param(
            "s3://lake/orders/1.parquet", "Server returned non-2xx status code: 403", id="a refusal"
        ),
        pytest.param(
            "s3://lake/orders/1.parquet", "HTTP error ↳ builder error: empty host", id="no such URL"
        ),
        pytest.param("/lake/orders/1.parquet", f"HTTP error: {REFUSED}", id="a local file"),
    ],
)
def test_what_stays_as_it_is_is_not_tried_again(path: str, why: str) -> None:
    with pytest.raises(LakeUnusable), storage.writing(path):
        raise OSError(why)
    with pytest.raises(LakeDamaged), storage.reading(path):
        raise OSError(why)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Not found.\nat line 3 of some file", "Not found"),
        ("", "OSError"),
        ("cannot open '<Buffer>'", "cannot open '<Buffer>'"),
        ("one\n   \x1b[31m↳\x1b[0m two\n  \x1b[31m↳\x1b[0m three.\n", "one: two: three"),
        ("one ↳ " + "x" * 1000, "one: " + "x" * (SENTENCE_MAX - 5)),
    ],
)
def test_other_errors_are_their_first_line(text: str, sentence: str) -> None:
    assert sentence_of(OSError(text)) == sentence


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(LakeTable.next_offsets, id="offsets"),
        pytest.param(lambda table: table.history(1), id="history"),
    ],
)
def test_a_store_may_fail_after_a_table_was_opened(
    tmp_path: Path, read: Callable[[LakeTable], object]
) -> None:
    create_table(str(tmp_path / "orders"), "orders")
    DeltaTable(tmp_path / "orders").alter.set_table_properties(
        {}, commit_properties=CommitProperties(app_transactions=[Transaction(app_name("partitions"), 1)])
    )
    table = LakeTable.open(str(tmp_path), "orders")
    for file in (tmp_path / "orders" / "_delta_log").iterdir():
        file.write_bytes(b"{")

    with pytest.raises(LakeUnusable):
        read(table)
