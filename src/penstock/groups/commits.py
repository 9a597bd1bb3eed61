"""A commit: the committed offset of a stream group on one partition, with metadata of the client."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed offset in a partition, as the client sent it."""

    offset: int  # The next one to read.
    leader_epoch: int = -1  # Of the record before it, as Kafka clients count; -1: unknown.
    metadata: str = ""  # A note of the committer's, for itself.
    # Wall time of the last commit by a Kafka client; -1: set by other clients, and never expires.
    told_ms: int = field(default=-1, compare=False)
    protocol: str = ""  # The protocol type of the Kafka group that committed it: "consumer".
