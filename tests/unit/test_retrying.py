"""What follows when a try of a request has failed."""

import pytest

from penstock.client.connections.exchange import ConnectionLost
from penstock.client.retrying import NextStep, RequestRetry
from penstock.errors import AlreadySettled, Overloaded, PenstockError, TopicNotFound, Unauthenticated

SETTLED = frozenset({AlreadySettled.code})
LOST = ConnectionLost("gone")
OVERLOADED = Overloaded(what="requests", limit=1)
GONE = TopicNotFound(topic="orders")
DENIED = Unauthenticated(why="the key was revoked")
BEFORE = AlreadySettled(topic="orders", partition=0, offset=1)


@pytest.mark.parametrize(
    ("changes", "repeat", "errors", "steps"),
    [
        (True, True, [LOST, LOST, GONE], [NextStep.AGAIN, NextStep.AGAIN, NextStep.RAISE]),
        (True, False, [LOST], [NextStep.UNKNOWN]),
        (False, True, [TimeoutError()], [NextStep.UNANSWERED]),
        (True, True, [TimeoutError()], [NextStep.UNKNOWN]),
        (True, True, [OVERLOADED, OVERLOADED], [NextStep.PAUSE, NextStep.PAUSE]),
        (True, True, [BEFORE], [NextStep.RAISE]),
        (True, True, [LOST, BEFORE], [NextStep.AGAIN, NextStep.DONE]),
        (True, True, [OVERLOADED, BEFORE], [NextStep.PAUSE, NextStep.RAISE]),
        (True, True, [DENIED], [NextStep.RAISE]),
        (True, True, [LOST, DENIED], [NextStep.AGAIN, NextStep.UNKNOWN]),
        (False, True, [LOST, DENIED], [NextStep.AGAIN, NextStep.RAISE]),
    ],
)
def test_each_error_has_its_next_step(
    changes: bool, repeat: bool, errors: list[Exception | PenstockError], steps: list[NextStep]
) -> None:
    retry = RequestRetry(changes, repeat, SETTLED)

    assert [retry.after(error) for error in errors] == steps


def test_pauses_are_counted_and_only_a_lost_request_was_perhaps_done() -> None:
    retry = RequestRetry(changes=True, repeat=True, done=SETTLED)

    retry.after(OVERLOADED)
    retry.after(OVERLOADED)
    assert (retry.pauses, retry.perhaps_done) == (2, False)

    retry.after(LOST)
    assert retry.perhaps_done
    assert not RequestRetry(changes=False, repeat=True, done=SETTLED).perhaps_done
