"""The bytes of every protocol on every port that does not speak it.

Nothing of it is carried out, the server ends the connection and says why where the protocol has a way to,
and everybody else is served as before.  What a web page can send is the worst of it: the page chooses the
body, and the browser may be on a machine that is trusted.
"""

import ssl
import struct
from collections.abc import Iterator

import pytest
from tests.server.bystander import Bystander, read_all
from tests.server.conversations import kqueue_pieces, native_pieces, text_pieces
from tests.server.peer import Peer
from tests.server.process import Server

from penstock.grpc.penstock_pb2 import TopicSettingsRequest
from penstock.wire.kafka.codec import encode
from penstock.wire.kafka.fields import KafkaMessage
from penstock.wire.kafka.messages.admin.topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic

PORTS = ("native", "text", "status", "http", "kafka", "sqs", "grpc")
WEB = ("http", "status", "sqs")  # They speak HTTP, and answer what they do not have with an error.
ENDED_S = 5.0  # The server ends such a connection at once; half of the shortest of its other deadlines.
EVIL = "evil"  # A topic that all of them try to make, or to publish to.
COMMANDS = f"PRODUCE {EVIL} 0 x\nSUB calm default\nPUB calm x\nQUIT\n".encode()

pytestmark = pytest.mark.slow


def kafka_bytes() -> bytes:
    """Two requests that would make a topic."""
    requests: list[KafkaMessage] = [
        MetadataRequest(topics=[MetadataRequestTopic(name=EVIL)]),
        CreateTopicsRequest(topics=[CreatableTopic(name=EVIL, num_partitions=1, replication_factor=1)]),
    ]
    frames = b""
    for request in requests:
        head = struct.pack(">hhih", request.KEY, 4, 1, 1) + b"x"
        body = head + b"".join(bytes(part) for part in encode(request, 4))
        frames += struct.pack(">i", len(body)) + body
    return frames


def tls_bytes() -> bytes:
    """What a client of TLS says first."""
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    wrapped = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        wrapped.do_handshake()
    return outgoing.read()


def request(method: str, body: bytes, *more: str) -> bytes:
    """As a browser sends it for ``fetch(url, {mode: "no-cors", method, body})``."""
    lines = [f"{method} / HTTP/1.1", "Host: 127.0.0.1:3000", f"Content-Length: {len(body)}", *more]
    lines += ["Content-Type: text/plain;charset=UTF-8", "Origin: http://evil.example.com", "Accept: */*"]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode() + body


def form(body: str) -> bytes:
    """A request of SQS's query protocol, which is what a form on any web page sends."""
    kind = b"application/x-www-form-urlencoded"
    return request("POST", body.encode()).replace(b"text/plain;charset=UTF-8", kind)


def grpc_bytes() -> bytes:
    """What a client of gRPC says first: a connection of HTTP/2, and a request that makes a topic."""
    path = "/penstock.v1.Admin/CreateTopic"
    fields = {":method": "POST", ":scheme": "http", ":authority": "localhost", ":path": path}
    fields |= {"te": "trailers", "content-type": "application/grpc"}
    head = b"".join(
        b"\0" + b"".join(bytes([len(text)]) + text.encode() for text in field) for field in fields.items()
    )
    message = TopicSettingsRequest(topic=EVIL).SerializeToString()
    body = b"\0" + struct.pack(">I", len(message)) + message

    def frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
        return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content

    settings, headers, data = frame(4, 0, 0, b""), frame(1, 4, 1, head), frame(0, 1, 1, body)
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + headers + data


def poisoned() -> bytes:
    """A ClientHello with a line of text in it, as in a session ticket that the page's own server made."""
    hello = bytearray(tls_bytes())
    hello[44:44] = b"\n" + COMMANDS
    return bytes(hello)


KQUEUE = b"".join(kqueue_pieces()).replace(b"fuzz-kqueue", EVIL.encode() + b" " * 7)
SPOKEN: dict[str, tuple[bytes, tuple[str, ...]]] = {  # The bytes, and the ports on which they are right.
    "native": (b"".join(native_pieces(1)), ("native",)),
    "kqueue": (KQUEUE, ("native",)),
    "kafka": (kafka_bytes(), ("kafka",)),
    "text": (b"".join(text_pieces()[3:]).replace(b"fuzz-text", EVIL.encode()), ("text",)),
    "TLS": (tls_bytes(), ()),
    "TLS with a line in it": (poisoned(), ()),
    "GET": (request("GET", b""), WEB),
    "POST": (request("POST", COMMANDS), WEB),
    "POST of frames": (request("POST", KQUEUE + kafka_bytes()), WEB),
    "OPTIONS": (request("OPTIONS", b""), WEB),
    "headers only": (b"Host: 127.0.0.1\r\n\r\n" + COMMANDS, ()),
    "WebSocket": (
        request("GET", COMMANDS, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
        WEB,
    ),
    "SQS": (form("Action=CreateQueue&QueueName=" + EVIL), WEB),
    "gRPC": (grpc_bytes(), ("grpc",)),
}
PAIRS = [
    pytest.param(name, port, id=f"{name}-on-{port}")
    for name, (_, right) in SPOKEN.items()
    for port in PORTS
    if port not in right
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server"), listeners=PORTS) as running:
        yield running
        running.check_log()
        assert running.stop() == 0
        running.check_log()


@pytest.fixture(scope="module")
def bystander(server: Server) -> Iterator[Bystander]:
    with Bystander(server) as calm:
        yield calm


def topics(server: Server) -> dict[str, int]:
    """How many messages each has."""
    with Peer(server) as peer:
        found = peer.call("topics")
        return {name: peer.call("describe_topic", name=name).messages for name in found}


def answer_to(server: Server, port: str, data: bytes, pieces: int) -> bytes:
    """What the server says before it ends the connection; a TimeoutError if it does not."""
    size = -(-len(data) // pieces)
    with server.connect(port) as made:
        made.settimeout(ENDED_S)
        try:
            for at in range(0, len(data), size):
                made.sendall(data[at : at + size])
        except ConnectionError:
            pass  # It was ended in the middle.
        return read_all(made)


@pytest.mark.parametrize(("name", "port"), PAIRS)
@pytest.mark.parametrize("pieces", [1, 40], ids=["at-once", "in-pieces"])
def test_bytes_of_one_protocol_do_nothing_on_the_port_of_another(
    server: Server, bystander: Bystander, name: str, port: str, pieces: int
) -> None:
    before = topics(server)

    answer = answer_to(server, port, SPOKEN[name][0], pieces)

    if port != "kafka" or name in ("GET", "POST", "OPTIONS", "WebSocket"):
        assert answer or pieces > 1, "nobody is left without a word"
    assert b"OK " not in answer
    assert topics(server) == before
    bystander.check()
    server.check_log()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A node of a cluster, which has one more port."""
    folder = tmp_path_factory.mktemp("node")
    settings = {"NAME": "foreign", "STORE": f"file://{folder}/store", "NODE": "1"}
    environment = {f"PENSTOCK_CLUSTER__{name}": value for name, value in settings.items()}
    with Server(folder, listeners=("native", "peer"), settings=environment) as running:
        yield running
        running.check_log()


@pytest.mark.parametrize("name", SPOKEN)
@pytest.mark.parametrize("pieces", [1, 40], ids=["at-once", "in-pieces"])
def test_bytes_of_all_protocols_do_nothing_on_the_port_for_other_nodes(
    node: Server, name: str, pieces: int
) -> None:
    """Also those of the native protocol: a peer first proves that it knows the secret."""
    before = topics(node)

    answer = answer_to(node, "peer", SPOKEN[name][0], pieces)

    assert b"OK " not in answer
    assert topics(node) == before
    node.check_log()


@pytest.mark.parametrize("port", ["native", "text", "kafka"])
def test_a_browser_on_another_port_is_told_where_the_api_is(server: Server, port: str) -> None:
    with server.connect(port) as made:
        made.settimeout(ENDED_S)
        made.sendall(request("GET", b""))
        answer = read_all(made)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"listen.http" in answer
    assert answer.count(b"\r\n\r\n") == 1


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["Host: localhost"], b"200"),
        (["Host: 10.1.2.3:8081"], b"200"),
        (["Host: evil.example.com"], b"421"),
        (["Host: localhost", "Origin: http://evil.example.com"], b"403"),
        (["Host: localhost:8081", "Origin: http://localhost:8081"], b"200"),
        (["Host: localhost", "Sec-Fetch-Site: cross-site"], b"200"),  # A link; the page cannot read it.
    ],
)
def test_the_status_page_looks_at_host_and_origin_as_the_api_does(
    server: Server, lines: list[str], status: bytes
) -> None:
    head = "".join(f"{line}\r\n" for line in ["GET /metrics HTTP/1.1", *lines, ""]).encode()

    with server.connect("status") as made:
        made.settimeout(ENDED_S)
        made.sendall(head)
        answer = read_all(made)

    assert answer.split()[1] == status


def test_a_thousand_connections_of_garbage_are_a_few_lines_in_the_log(server: Server) -> None:
    before = len(server.log().splitlines())
    for port in ("kafka", "native"):
        for _ in range(500):
            with server.connect(port) as made:
                made.settimeout(ENDED_S)
                made.sendall(b"\x10\xff\xff\xff\xff garbage")
                read_all(made)

    assert len(server.log().splitlines()) - before <= 20
