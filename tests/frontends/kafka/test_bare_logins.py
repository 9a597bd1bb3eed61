"""Logins that are not in Kafka's messages (SaslHandshake 0), as clients of Kafka 0.10 and 0.11 make them."""

import struct
from collections.abc import Iterator

import kafka as kafka_python
import pytest
from tests.frontends.kafka.conftest import Server, serving
from tests.frontends.kafka.raw import Raw

from penstock.frontends.kafka import sasl as handlers
from penstock.model.access import Grant
from penstock.wire.kafka.messages import cluster, sasl

PASSWORD = "correct horse"
RIGHT = f"\0anna\0{PASSWORD}".encode()


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    for server in serving(authentication=True):
        server.run(server.broker.create_topic("orders"))
        server.run(server.broker.set_user("anna", PASSWORD, [Grant(role="admin")]))
        yield server


def handshake(raw: Raw) -> None:
    told = raw.ask(sasl.SaslHandshakeRequest(mechanism="PLAIN"), sasl.SaslHandshakeResponse, 0)
    assert told.error_code == 0


def bare(raw: Raw, token: bytes) -> bytes:
    """The answer; nothing if the connection ends."""
    raw._socket.sendall(struct.pack(">i", len(token)) + token)
    return raw._socket.recv(4)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_an_old_client_logs_in_and_goes_on(guarded: Server, mechanism: str) -> None:
    consumer = kafka_python.KafkaConsumer(
        bootstrap_servers=guarded.address,
        api_version=(0, 11),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username="anna",
        sasl_plain_password=PASSWORD,
    )

    assert consumer.topics() == {"orders"}

    consumer.close()


def test_a_request_may_come_right_behind_the_login(guarded: Server) -> None:
    with Raw(guarded) as raw:
        handshake(raw)
        raw._socket.sendall(struct.pack(">i", len(RIGHT)) + RIGHT)
        raw.send(cluster.DescribeClusterRequest(), 0)

        assert raw._socket.recv(4) == bytes(4)
        assert raw.hear(cluster.DescribeClusterResponse).error_code == 0


@pytest.mark.parametrize("token", [b"\0anna\0wrong password", b"", b"\0\x12\0\3\0\0\0\0"])
def test_whoever_fails_is_cut_off(guarded: Server, token: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "FAILED_S", 0.01)
    with Raw(guarded) as raw:
        handshake(raw)

        assert bare(raw, token) == b""
