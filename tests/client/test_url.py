"""Where a server is."""

import pytest

from penstock.client.url import server_address
from penstock.errors import InvalidValue


@pytest.mark.parametrize(
    ("url", "host", "port", "text"),
    [
        ("penstock://127.0.0.1:7071", "127.0.0.1", 7071, "penstock://127.0.0.1:7071"),
        ("penstock://broker.example.org", "broker.example.org", 7070, "penstock://broker.example.org:7070"),
        ("127.0.0.1:7070", "127.0.0.1", 7070, "penstock://127.0.0.1:7070"),
        ("penstock://localhost:1/", "localhost", 1, "penstock://localhost:1"),
        ("penstock://[::1]:65535", "::1", 65535, "penstock://[::1]:65535"),
    ],
)
def test_a_url_names_host_and_port(url: str, host: str, port: int, text: str) -> None:
    address = server_address(url)

    assert (address.host, address.port, str(address)) == (host, port, text)


@pytest.mark.parametrize(
    "url",
    [
        "", "penstock://", "http://127.0.0.1:7070", "penstock://host:0", "penstock://host:65536",
        "penstock://host:port", "penstock://user@host:1", "penstock://host:1/path", "penstock://::1:7070",
        "penstock://host :1", None, 7070, b"penstock://host",
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_an_example(url: object) -> None:
    with pytest.raises(InvalidValue, match=r"write it like 'penstock://"):
        server_address(url)
