"""A commit: how far a stream group has come on one partition, with what the committer wants to find again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Commit:
    """A place in a partition, as it was told."""

    offset: int  # The next one to read.
    leader_epoch: int = -1  # Of the record before it, as Kafka's clients count; -1: it was not told.
    metadata: str = ""  # A note of the committer's, for itself.
