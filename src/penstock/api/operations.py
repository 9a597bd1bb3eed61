"""The interface of a broker: between the facades that programs use and the code that does the work.

    Broker, AsyncBroker      the facades: names, arguments, docstrings             api/
          │ Operations       one method for each thing a broker can do
          ├── LocalOperations    on a broker in this process                       broker/
          └── RemoteOperations   over a connection to a server                     client/

An operation returns ``Work``, which a driver runs to its end by blocking a thread
or by awaiting.  For a broker in this process it is a generator of steps
(``broker/steps.py``), for a connection what ``coroutine.__await__()`` returns.

Most operations are in ``declared.py``, which is generated from their entries in
``operations/spec.py``.  Arguments are passed as the program gave them, unchecked.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from penstock.api.declared import DeclaredOperations
from penstock.api.work import Work
from penstock.config.broker import Compression, GroupOptions
from penstock.model.message import Delivery, LeaseRun, Message, Receipt
from penstock.types import Duration
from penstock.wire.records import Record

T = TypeVar("T")

Wrap = Callable[[Delivery, list[Record]], list[Any]]  # Makes messages of the records of a lease.


class Driver(Protocol):
    """Runs work to its end in the caller's thread."""

    def run(self, work: Work[T]) -> T: ...

    def close(self, timeout_ms: int | None) -> None: ...


class AsyncDriver(Protocol):
    """Runs work to its end on an event loop."""

    def run(self, work: Work[T]) -> Awaitable[T]: ...

    def close(self, timeout_ms: int | None) -> Awaitable[None]: ...


class ConsumerOperations(Protocol):
    """One consumer of a group."""

    settler: Any  # What received messages answer to: the facade's consumer.

    @property
    def identity(self) -> str: ...

    @property
    def in_flight(self) -> int: ...

    @property
    def assignment(self) -> list[int]: ...

    @property
    def closed(self) -> bool: ...

    def receive(self, max_messages: Any, wait_ms: int) -> Work[list[Any]]: ...

    def ack(self, messages: list[Any], outputs: list[tuple[str, Message]]) -> Work[None]: ...

    def nack(self, message: Any, delay: Duration | None, error: BaseException | str | None) -> Work[None]: ...

    def reject(self, message: Any, reason: Any) -> Work[None]: ...

    def extend(self, message: Any, duration: Duration) -> Work[None]: ...

    def commit(self) -> Work[None]: ...

    def answered(self, runs: list[LeaseRun]) -> Work[None]: ...  # By a transaction.

    def close(self) -> Work[None]: ...


class ProducerOperations(Protocol):
    """What one idempotent producer may call."""

    @property
    def producer_id(self) -> int: ...

    def publish(self, topic: str, message: Message) -> Work[Receipt]: ...


class Operations(DeclaredOperations, Protocol):
    """One broker.  Most operations are generated; these are written by hand on both sides."""

    def publish(self, topic: str, message: Message) -> Work[Receipt]: ...

    def producer(self, compression: Compression) -> Work[ProducerOperations]: ...

    def consumer(
        self,
        topic: str,
        group: str,
        consumer_id: str | None,
        max_in_flight: int | None,
        options: GroupOptions,
        wrap: Wrap,
    ) -> Work[ConsumerOperations]: ...
