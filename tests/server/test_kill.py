"""kill -9 of a server under load from real clients, again and again, at random moments.

Promised: every answered publish is there exactly once, in order; no answered
ack is delivered again; a delayed message, an output published with an ack and
a dead letter are there once; a stream goes on without a gap; and all that the
programs notice is ``LeaseLost`` for a message that the dead server had lent them.
"""

from pathlib import Path
from random import Random

import pytest
from tests.server.crew import Crew
from tests.server.process import Server

import penstock

KILLS = 25
START_S = 0.6  # About how long a start takes: some are killed on the way.
SEED = 2026

pytestmark = pytest.mark.slow


def test_a_server_that_is_killed_again_and_again_breaks_no_promise(tmp_path: Path) -> None:
    random = Random(SEED)

    with Server(tmp_path) as server, Crew(server.url) as crew:
        crew.begin(("publish", 1), ("publish", 2), ("consume", 3), ("consume", 4), ("prefetch", 5))
        for number in range(KILLS):
            crew.hear(0 if number % 5 == 4 else random.randrange(300))  # Sometimes before anybody is back.
            server.kill()
            if number % 5 == 1:
                server.stumble(random.random() * START_S)
            server.start()
        crew.hear(300)
        crew.end()
        server.check_log()

        ledger = crew.ledger
        with penstock.connect(server.url) as broker:
            ledger.check(broker)
        # They did work between the kills.
        assert min(len(ledger.published), len(ledger.later), len(ledger.acked)) > 10 * KILLS
        assert min(ledger.prefetched, ledger.streamed) > KILLS
        assert ledger.nacked > 0  # Few are, and how many is chance.
