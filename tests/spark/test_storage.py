"""What a store says when it fails, in our words: one sentence, with the cause in it."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from deltalake import DeltaTable

from penstock.errors import LakeUnusable
from penstock.spark.lake.delta import translated_errors
from penstock.spark.lake.storage import SENTENCE_MAX, sentence_of

ANSWER = b"<?xml version='1.0'?>\n<Error><Code>SlowDown</Code>\n<Message>the store is full.</Message></Error>"


class Failing(BaseHTTPRequestHandler):
    """A store that answers everything with an error."""

    def do_GET(self) -> None:
        """Whatever is asked."""
        self.send_response(500)
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name.
        """Nothing."""


@pytest.fixture
def store() -> Iterator[str]:
    """Where it listens."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Failing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_error_of_a_store_keeps_what_explains_it(store: str) -> None:
    options = {
        "AWS_ENDPOINT_URL": store,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "here",
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "max_retries": "0",
    }

    with pytest.raises(LakeUnusable) as failure, translated_errors("s3://lake/orders"):
        DeltaTable("s3://lake/orders", storage_options=options)

    sentence = str(failure.value)
    assert "Generic S3 error" in sentence
    assert "500 Internal Server Error" in sentence
    assert "SlowDown the store is full" in sentence
    assert not {"\n", "\x1b", "<"} & set(sentence)


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
