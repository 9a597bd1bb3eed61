"""Tables of Kafka messages: classes whose annotations describe the fields on the wire.

    class FetchPartition(Part):
        partition: Int32 = 0
        current_leader_epoch: Annotated[Int32, Versions(9)] = -1            from version 9 on
        log_start_offset: Annotated[Int64, Versions(5, 12)] = -1            in versions 5 to 12
        rack: Annotated[String | None, Versions(nullable=7)] = None         may be null from version 7 on
        cluster: Annotated[String | None, Versions(12, tag=0)] = None       a tagged field
        replicas: list[Int32] = []
        leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)  a part of its own

    @api(1, versions=(4, 18), flexible=12)                                  short lengths and tags from 12 on
    class FetchRequest(KafkaMessage):
        partitions: list[FetchPartition] = []

``X | None`` without ``nullable`` may be null in every version.  A field that a version does not have keeps
its default when it is read, and is left out when it is written.  The order of the fields is their order on
the wire.

To a type checker a message is a plain class of ints, strings and lists; ``codec`` compiles the annotations.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, TypeVar

from msgspec import Struct


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value of so many bytes, with its code in ``struct``."""

    code: str
    size: int


@dataclass(frozen=True, slots=True)
class Sized:
    """A value behind its length; ``wide`` ones have a length of four bytes, others of two."""

    name: str
    wide: bool


@dataclass(frozen=True, slots=True)
class Versions:
    """In which versions a field is there, may be null, and whether it is a tagged one."""

    since: int = 0
    until: int = 0x7FFF
    tag: int | None = None
    nullable: int = 0  # From this version on; means nothing for a field that cannot be None.

    def __contains__(self, version: int) -> bool:
        return self.since <= version <= self.until


TEXT: Final = Sized("text", wide=False)
BLOB: Final = Sized("blob", wide=True)
RECORDS: Final = Sized("records", wide=True)

Bool = Annotated[bool, Fixed("?", 1)]
Int8 = Annotated[int, Fixed("b", 1)]
Int16 = Annotated[int, Fixed("h", 2)]
UInt16 = Annotated[int, Fixed("H", 2)]
Int32 = Annotated[int, Fixed("i", 4)]
Int64 = Annotated[int, Fixed("q", 8)]
Float64 = Annotated[float, Fixed("d", 8)]
Uuid = Annotated[bytes, Fixed("16s", 16)]  # Sixteen bytes: never shown, often compared.
String = Annotated[str, TEXT]
Bytes = Annotated[bytes, BLOB]
Records = Annotated[
    bytes | memoryview, RECORDS
]  # A slice of the frame that was read; not copied when written.

NO_UUID: Final = bytes(16)
NEVER: Final = 0x7FFF  # For a message without flexible versions.


class Part(Struct, gc=False):  # No part refers to itself, and there are many of them.
    """A part of a message that stands in it once or in a list."""


class KafkaMessage(Part):
    """A whole request or response; its class says where it belongs."""

    KEY: ClassVar[int]  # Of the API, in Kafka's numbers.
    VERSIONS: ClassVar[tuple[int, int]]  # The first and the last that we speak.
    FLEXIBLE: ClassVar[int]  # From this version on: short lengths and tagged fields.


MessageT = TypeVar("MessageT", bound=KafkaMessage)


def api(key: int, *, versions: tuple[int, int], flexible: int) -> Callable[[type[MessageT]], type[MessageT]]:
    """Declare to which API a message belongs, in which versions."""

    def declared(message: type[MessageT]) -> type[MessageT]:
        message.KEY, message.VERSIONS, message.FLEXIBLE = key, versions, flexible
        return message

    return declared
