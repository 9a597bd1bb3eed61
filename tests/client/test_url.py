"""Where a server is."""

import pytest

from penstock.client.connections.url import server_addresses
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
    [address] = server_addresses(url)

    assert (address.host, address.port, str(address)) == (host, port, text)


@pytest.mark.parametrize(
    "url",
    [
        "", "penstock://", "http://127.0.0.1:7070", "penstock://host:0", "penstock://host:65536",
        "penstock://host:port", "penstock://user@host:1", "penstock://host:1/path", "penstock://::1:7070",
        "penstock://host :1", "penstock://a,,b", "penstock://a,penstock://b", ",", [], ["a", None],
        None, 7070, b"penstock://host",
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_an_example(url: object) -> None:
    with pytest.raises(InvalidValue, match=r"write it like 'penstock://"):
        server_addresses(url)


def test_the_nodes_of_a_cluster_are_one_url_or_a_list() -> None:
    nodes = [("a", 7070, False), ("::1", 7071, False), ("c", 7072, False)]

    assert server_addresses("penstock://a,[::1]:7071,c:7072/") == nodes
    assert server_addresses(["penstock://a", "[::1]:7071", "penstock://c:7072"]) == nodes
    assert server_addresses(("a,[::1]:7071", "c:7072,a")) == nodes
    assert server_addresses("penstocks://a,b") == [("a", 7070, True), ("b", 7070, True)]
    with pytest.raises(InvalidValue, match="use TLS for all nodes"):
        server_addresses(["penstock://a", "penstocks://b"])
