"""A commit: the committed offset of a stream group on one partition, with metadata of the client."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Commit:
    """A place in a partition, as it was told."""

    offset: int  # The next one to read.
    leader_epoch: int = -1  # Of the record before it, as Kafka's clients count; -1: it was not told.
    metadata: str = ""  # A note of the committer's, for itself.
    # Wall time at which Kafka's clients last stood for it; -1: it was told by others, and is kept.
    told_ms: int = field(default=-1, compare=False)
    protocol: str = ""  # What the members of a Kafka group agreed on when one of them told it: "consumer".
