"""What every system can be asked to do, in the words of none of them.

An adapter is one client in one process, and everything it does blocks.  Where
a client library offers a quicker way for many messages (pipelining, batches)
``publish_many`` and ``ack`` take it; where it offers none they are a loop.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

Can = Literal["groups", "nack", "delay", "ack"]
Token = Any  # What a client needs to answer for a message.
Received = list[tuple[bytes, Token]]


class Adapter(ABC):
    """One client of one system."""

    can: ClassVar[frozenset[Can]]  # Beyond publishing and receiving.

    @abstractmethod
    def __init__(self, address: str, mode: str) -> None:
        """Connect; ``mode`` is the system's own name for how safely it keeps messages."""

    @abstractmethod
    def make(self, queue: str, groups: Sequence[str]) -> None:
        """Make a queue that each of the groups reads from its beginning."""

    @abstractmethod
    def publish(self, queue: str, body: bytes) -> None:
        """One message; returns when it is confirmed."""

    def publish_many(self, queue: str, bodies: Sequence[bytes]) -> None:
        """All of them, as quickly as the client can; returns when all are confirmed."""
        for body in bodies:
            self.publish(queue, body)

    def publish_later(self, queue: str, bodies: Sequence[tuple[bytes, float]]) -> None:
        """Each with its delay in seconds."""
        raise NotImplementedError

    @abstractmethod
    def subscribe(self, queue: str, group: str) -> None:
        """From now on ``receive`` is for this group."""

    @abstractmethod
    def receive(self, count: int, wait_s: float) -> Received:
        """Up to so many messages; empty if there was none for so long."""

    def ack(self, tokens: Sequence[Token]) -> None:
        """Each of these is done."""
        raise NotImplementedError

    def nack(self, token: Token) -> None:
        """This one failed and is to come again at once."""
        raise NotImplementedError

    @abstractmethod
    def close(self) -> None:
        """Hang up."""
