"""Reading records: Fetch."""

from typing import Annotated

from msgspec import field

from penstock.wire.kafka.fields import (
    NO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    KafkaMessage,
    Part,
    Records,
    String,
    Uuid,
    Versions,
    api,
)
from penstock.wire.kafka.messages.parts import LeaderIdAndEpoch, NodeEndpoint


class ReplicaState(Part):
    """The state of the replica in the follower."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Part):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, Versions(9)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, Versions(12)] = -1
    log_start_offset: Annotated[Int64, Versions(5)] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, Versions(17, tag=0)] = NO_UUID
    high_watermark: Annotated[Int64, Versions(18, tag=1)] = 2**63 - 1


class FetchTopic(Part):
    topic: Annotated[String, Versions(0, 12)] = ""
    topic_id: Annotated[Uuid, Versions(13)] = NO_UUID
    partitions: list[FetchPartition] = []


class ForgottenTopic(Part):
    """In an incremental fetch request, the partitions to remove."""

    topic: Annotated[String, Versions(0, 12)] = ""
    topic_id: Annotated[Uuid, Versions(13)] = NO_UUID
    partitions: list[Int32] = []


@api(1, versions=(4, 18), flexible=12)
class FetchRequest(KafkaMessage):
    cluster_id: Annotated[String | None, Versions(12, tag=0)] = None
    replica_id: Annotated[Int32, Versions(0, 14)] = -1
    replica_state: Annotated[ReplicaState, Versions(15, tag=1)] = field(default_factory=ReplicaState)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2147483647
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, Versions(7)] = 0
    session_epoch: Annotated[Int32, Versions(7)] = -1
    topics: list[FetchTopic] = []
    forgotten_topics_data: Annotated[list[ForgottenTopic], Versions(7)] = []
    rack_id: Annotated[String, Versions(11)] = ""


class EpochEndOffset(Part):
    """In case divergence is detected based on the `LastFetchedEpoch` and `FetchOffset` in the request, this
    field indicates the largest epoch and its end offset such that subsequent records are known to diverge."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


class SnapshotId(Part):
    """In the case of fetching an offset less than the LogStartOffset, this is the end offset and epoch that
    should be used in the FetchSnapshot request."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Part):
    producer_id: Int64 = 0
    first_offset: Int64 = 0


class PartitionData(Part):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, Versions(5)] = -1
    diverging_epoch: Annotated[EpochEndOffset, Versions(12, tag=0)] = field(default_factory=EpochEndOffset)
    current_leader: Annotated[LeaderIdAndEpoch, Versions(12, tag=1)] = field(default_factory=LeaderIdAndEpoch)
    snapshot_id: Annotated[SnapshotId, Versions(12, tag=2)] = field(default_factory=SnapshotId)
    aborted_transactions: list[AbortedTransaction] | None = []
    preferred_read_replica: Annotated[Int32, Versions(11)] = -1
    records: Records | None = None


class FetchableTopicResponse(Part):
    topic: Annotated[String, Versions(0, 12)] = ""
    topic_id: Annotated[Uuid, Versions(13)] = NO_UUID
    partitions: list[PartitionData] = []


@api(1, versions=(4, 18), flexible=12)
class FetchResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Versions(7)] = 0
    session_id: Annotated[Int32, Versions(7)] = 0
    responses: list[FetchableTopicResponse] = []
    node_endpoints: Annotated[list[NodeEndpoint], Versions(16, tag=0)] = []
