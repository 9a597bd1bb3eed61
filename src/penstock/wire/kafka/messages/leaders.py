"""Where to ask instead: parts that the answers of several APIs have in common."""

from typing import Final

from penstock.wire.kafka.fields import Int32, Part, String


class LeaderIdAndEpoch(Part):
    """The current leader of a partition."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


NO_LEADER: Final = LeaderIdAndEpoch()  # Shared by all that name none: never change it.


class NodeEndpoint(Part):
    """Where a leader listens that an answer names."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
