"""The port between nodes: who is let in, and what both sides learn."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.clustered import SECRET, ClusterServer

from penstock.cluster.routing.peers import NONCE_BYTES, PeerHello, Peers, proof
from penstock.errors import PenstockError
from penstock.model.owners import NodeAddress
from penstock.wire import native
from penstock.wire.native_bodies import Hello, decode_body, decode_error_frame, encode_body, encode_call


@pytest.fixture
def server() -> Iterator[ClusterServer]:
    with ClusterServer() as server:
        yield server


async def ping(address: NodeAddress, secret: bytes) -> PenstockError | None:
    """What becomes of a request to a node."""
    peer = Peers(secret).peer(2, address)
    done: asyncio.Future[PenstockError | None] = asyncio.get_running_loop().create_future()
    peer.request(
        "ping", lambda each: native.frame(native.PING, each), lambda _, error: done.set_result(error)
    )
    error = await done
    await peer.close()
    return error


def test_a_node_with_the_secret_is_let_in(server: ClusterServer) -> None:
    assert server.run(ping(server.nodes[0].table.addresses[2], SECRET)) is None


def test_a_node_without_the_secret_is_not(server: ClusterServer) -> None:
    error = server.run(ping(server.nodes[0].table.addresses[2], b"something else"))

    assert error is not None
    assert "does not know the cluster's secret" in str(error)


async def talk(address: NodeAddress, *frames: bytes) -> list[tuple[int, bytes]]:
    """Send frames, and return those that come back before the end."""
    reader, writer = await asyncio.open_connection(address.host, address.peer)
    answers = []
    for frame in frames:
        writer.write(frame)
        head = await reader.read(native.HEADER_BYTES)
        if not head:
            break
        answers.append((head[0], await reader.readexactly(int.from_bytes(head[1:], "big"))))
    writer.close()
    return answers


def test_nothing_can_be_called_before_the_proof(server: ClusterServer) -> None:
    address = server.nodes[0].table.addresses[2]
    hello = encode_body(native.HELLO, 1, PeerHello(nonce=bytes(NONCE_BYTES)))

    answers = server.run(talk(address, hello, native.frame(native.PING, 2)))

    assert [opcode for opcode, _ in answers] == [native.OK, native.ERROR]
    assert decode_error_frame(answers[1][1]).code == "PROTOCOL_VIOLATION"


def test_a_client_is_not_let_in(server: ClusterServer) -> None:
    address = server.nodes[0].table.addresses[2]
    hello = encode_body(native.HELLO, 1, Hello(versions=[native.VERSION], client="penstock"))

    answers = server.run(talk(address, hello, native.frame(native.PING, 2)))

    assert [opcode for opcode, _ in answers] == [native.OK, native.ERROR]


def test_a_recorded_proof_is_worth_nothing(server: ClusterServer) -> None:
    address = server.nodes[0].table.addresses[2]
    nonce = bytes(NONCE_BYTES)
    hello = encode_body(native.HELLO, 1, PeerHello(nonce=nonce))
    [(_, body)] = server.run(talk(address, hello))
    theirs = decode_body(body, PeerHello)
    shown = PeerHello(proof=proof(SECRET, "client", theirs.nonce, nonce))

    answers = server.run(talk(address, hello, encode_body(native.HELLO, 2, shown)))

    assert theirs.proof == proof(SECRET, "server", nonce, theirs.nonce)
    assert [opcode for opcode, _ in answers] == [native.OK, native.ERROR]
    assert decode_error_frame(answers[1][1]).code == "UNAUTHENTICATED"


def test_the_proof_of_the_server_is_not_one_of_a_client(server: ClusterServer) -> None:
    address = server.nodes[0].table.addresses[2]

    async def reflect() -> int:
        reader, writer = await asyncio.open_connection(address.host, address.peer)
        writer.write(encode_body(native.HELLO, 1, PeerHello(nonce=bytes(NONCE_BYTES))))
        head = await reader.readexactly(native.HEADER_BYTES)
        theirs = decode_body(await reader.readexactly(int.from_bytes(head[1:], "big")), PeerHello)
        writer.write(encode_body(native.HELLO, 2, PeerHello(proof=theirs.proof)))
        head = await reader.readexactly(native.HEADER_BYTES)
        writer.close()
        return head[0]

    assert server.run(reflect()) == native.ERROR


def test_an_operation_that_only_nodes_call_is_unknown_to_clients(server: ClusterServer) -> None:
    address = server.nodes[0].table.addresses[2]
    port = server.port

    async def asked(port: int) -> str:
        hello = Hello(versions=[native.VERSION], client="penstock")
        call = encode_call(2, "waiting", {})
        answers = await talk(address._replace(peer=port), encode_body(native.HELLO, 1, hello), call)
        return decode_error_frame(answers[1][1]).code

    assert server.run(asked(port)) == "OPERATION_UNKNOWN"


def test_a_node_that_does_not_listen_is_unreachable(server: ClusterServer) -> None:
    error = server.run(ping(NodeAddress("127.0.0.1", 1), SECRET))

    assert error is not None
    assert error.code == "SERVER_UNREACHABLE"
