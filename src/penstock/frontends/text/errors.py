"""Errors of the broker in the text protocol.

The few that KQueue's text protocol had keep its wording; all others are sent as
their own sentence and code.
"""

from typing import Final

from penstock.errors import PenstockError
from penstock.frontends.public import public

# Code of the error -> the words.
WORDS: Final = {
    "TOPIC_NOT_FOUND": "Topic not found. Try subscribing first.",
    "QUEUE_FULL": "Queue full, backpressure applied",
    "ALREADY_SETTLED": "Message ID not found or already acknowledged.",
    "LEASE_LOST": "Message ID not found or already acknowledged.",
    "UNAUTHENTICATED": "You are not logged in: AUTH <key>, with a key that is valid here",
}
MISSING_COMMAND: Final = "Missing command"
UNKNOWN_COMMAND: Final = "Unknown command"
UNKNOWN_MESSAGE: Final = WORDS["ALREADY_SETTLED"]
UNAUTHENTICATED: Final = WORDS["UNAUTHENTICATED"]
FAULT: Final = "Internal error; the server's log says more"


def not_lines(spoken: str) -> str:
    """Why a connection is closed that does not begin with a line."""
    return f"This port speaks the text protocol, in lines; what you sent looks like {spoken}"


def words(error: PenstockError) -> str:
    """The error on one line."""
    return WORDS.get(error.code) or " ".join(str(public(error)).split())
