"""A body of 100 MB, published line by line by a real server whose memory does not grow with it."""

import re
import socket
import threading
from pathlib import Path

import pytest
from tests.frontends.serve.process import Process

from penstock import connect

LINES = 100_000
LINE = b'{"text": "' + b"x" * 1024 + b'"}\n'
PIECE_LINES = 100
GROWTH_MB_MAX = 10  # A piece and its messages at some stages of their way; less than 1 was measured.


def peak_mb(pid: int) -> float:
    """The most memory that a process ever had."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def publish(port: int, lines: int) -> bytes:
    """All that the server answers; it is heard while the body is sent."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        head = (
            "POST /v1/topics/orders/publish/batch HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
            f"content-type: application/x-ndjson\r\ncontent-length: {lines * len(LINE)}\r\n\r\n"
        )
        connection.sendall(head.encode())

        def send() -> None:
            for _ in range(lines // PIECE_LINES):
                connection.sendall(LINE * PIECE_LINES)

        sender = threading.Thread(target=send)
        sender.start()
        heard = bytearray()
        while piece := connection.recv(1 << 20):
            heard += piece
        sender.join()
    return bytes(heard)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc tells of memory")
def test_a_hundred_megabytes_of_lines_are_published_in_bounded_memory(tmp_path: Path) -> None:
    with Process(tmp_path / "data") as server:
        with connect(server.said["native"]) as broker:
            broker.create_topic("orders", partitions=1, durability="os")
            publish(server.port("http"), 10 * PIECE_LINES)
            before = peak_mb(server.pid)

            answer = publish(server.port("http"), LINES)

            assert answer.count(b'"ok":true') == LINES
            assert broker.offsets("orders", "latest") == {0: LINES + 10 * PIECE_LINES}
        assert LINES * len(LINE) > 100_000_000
        assert peak_mb(server.pid) - before < GROWTH_MB_MAX
