"""A client that takes messages and never answers; run by ``test_clients.py``, and killed.

python holder.py <url> <queue or stream>
"""

import sys

import penstock


def main(url: str, kind: str) -> None:
    with penstock.connect(url) as broker:
        if kind == "stream":
            consumer = broker.consumer("orders", group=kind, kind="stream", session_timeout="10m")
        else:
            consumer = broker.consumer("orders", group=kind, visibility_timeout="10m")
        messages = consumer.receive(10, wait="60s")
        sys.stdout.write(f"{len(messages)}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
