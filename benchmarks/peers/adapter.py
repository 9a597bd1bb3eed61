"""What every system can be asked to do, in the words of none of them.

An adapter is one client in one process.  ``publish`` returns when its message
is confirmed.  ``send`` only begins, as quickly as the client can (pipelined,
batched), with a bound on what is under way; ``flush`` waits for the rest.  An
adapter has its own way for one of the two at least, and each stands for the
other where that is as quick.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

Token = Any  # What a client needs to answer for a message.
Received = list[tuple[bytes, Token]]


class Adapter(ABC):
    """One client of one system."""

    send_max = 1000  # Messages that ``send`` is given together, at most.

    @abstractmethod
    def __init__(self, address: str, mode: str) -> None:
        """Connect; ``mode`` is the system's own name for how safely it keeps messages."""

    @abstractmethod
    def make(self, queue: str, groups: Sequence[str]) -> None:
        """Make a queue that each of the groups reads from its beginning."""

    def publish(self, queue: str, body: bytes) -> None:
        """One message; returns when it is confirmed."""
        self.send(queue, [body])
        self.flush()

    def send(self, queue: str, bodies: Sequence[bytes]) -> None:
        """Begin to publish all of them."""
        for body in bodies:
            self.publish(queue, body)

    def flush(self) -> None:  # noqa: B027 - nothing is under way where nothing is only begun.
        """Return when everything that was begun is confirmed; raises if something was refused."""

    def publish_later(self, queue: str, bodies: Sequence[bytes], delays_s: Sequence[int]) -> None:
        """Each with its delay; returns when all are confirmed."""
        raise NotImplementedError

    @abstractmethod
    def subscribe(self, queue: str, group: str) -> None:
        """From now on ``receive`` is for this group."""

    @abstractmethod
    def receive(self, count: int, wait_s: float) -> Received:
        """Up to so many messages, as soon as there are any; empty if there was none for so long."""

    def ack(self, tokens: Sequence[Token]) -> None:
        """Each of these is done; ``flush`` waits until the server knows, if it ever tells."""
        raise NotImplementedError

    def nack(self, tokens: Sequence[Token]) -> None:
        """These failed and are to come again at once."""
        raise NotImplementedError

    @abstractmethod
    def close(self) -> None:
        """Hang up."""
