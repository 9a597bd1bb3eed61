"""kill -9 of clients: what they held goes to others, and what they published is whole."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.server.crew import Crew
from tests.server.ledger import PARTITIONS, TOPIC, all_of
from tests.server.process import PATIENCE_S, Server

import penstock

HOLDER = Path(__file__).with_name("holder.py")
# The visibility timeout here is ten minutes: what comes back, comes back because of the resume time.
RESUME = {"PENSTOCK_LIMITS__RESUME": "300ms"}

pytestmark = pytest.mark.slow


def killed_holder(server: Server, kind: str) -> int:
    """Let a client take messages, and kill it; returns how many it had."""
    process = subprocess.Popen(
        [sys.executable, str(HOLDER), server.url, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        count = int(process.stdout.readline())
        process.kill()
    return count


@pytest.mark.parametrize("kind", ["queue", "stream"])
def test_what_a_killed_client_held_goes_to_another_soon_and_counts_an_attempt(
    tmp_path: Path, kind: str
) -> None:
    with Server(tmp_path, settings=RESUME) as server, penstock.connect(server.url) as broker:
        broker.create_topic("orders", partitions=1)
        broker.publish_batch("orders", [b"%d" % number for number in range(10)])

        assert killed_holder(server, kind) == 10

        with broker.consumer("orders", group=kind) as consumer:
            messages = consumer.receive(10, wait=PATIENCE_S)
            assert [message.value for message in messages] == [b"%d" % number for number in range(10)]
            assert {message.attempt for message in messages} == {2 if kind == "queue" else 1}
            consumer.ack(messages)
        server.check_log()


def test_publishers_that_are_killed_leave_whole_batches_and_nothing_twice(tmp_path: Path) -> None:
    with Server(tmp_path) as server, Crew(server.url) as crew:
        crew.begin(("consume", 1))
        for number in range(2, 6):
            crew.begin(("publish", number))
            crew.hear(100)
            crew.kill(1)
        crew.end()
        server.check_log()

        with penstock.connect(server.url) as broker:
            crew.ledger.check(broker)
            stored = [
                message.value for number in range(PARTITIONS) for message in all_of(broker, TOPIC, number)
            ]
        batches = Counter(value.rsplit(b"-", 2)[0] for value in stored if value.endswith(b"-batch"))
        assert len(batches) > 10
        for name, count in batches.items():
            assert count == int(name.rsplit(b"-", 1)[1]) % 20 + 1
