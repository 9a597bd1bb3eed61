"""Looking at producers and transactions: DescribeProducers, DescribeTransactions, ListTransactions."""

from typing import Annotated

from penstock.wire.kafka.fields import Int16, Int32, Int64, KafkaMessage, Part, String, Versions, api
from penstock.wire.kafka.messages.parts import NamePartitionIndexes, TopicPartitions


@api(61, versions=(0, 0), flexible=0)
class DescribeProducersRequest(KafkaMessage):
    topics: list[NamePartitionIndexes] = []


class ProducerState(Part):
    """The active producers for the partition."""

    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class DescribeProducersPartition(Part):
    """Each partition in the response."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: list[ProducerState] = []


class DescribeProducersTopicResult(Part):
    """Each topic in the response."""

    name: String = ""
    partitions: list[DescribeProducersPartition] = []


@api(61, versions=(0, 0), flexible=0)
class DescribeProducersResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    topics: list[DescribeProducersTopicResult] = []


@api(65, versions=(0, 0), flexible=0)
class DescribeTransactionsRequest(KafkaMessage):
    transactional_ids: list[String] = []


class DescribedTransaction(Part):
    """The current state of the transaction."""

    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicPartitions] = []


@api(65, versions=(0, 0), flexible=0)
class DescribeTransactionsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    transaction_states: list[DescribedTransaction] = []


@api(66, versions=(0, 2), flexible=0)
class ListTransactionsRequest(KafkaMessage):
    state_filters: list[String] = []
    producer_id_filters: list[Int64] = []
    duration_filter: Annotated[Int64, Versions(1)] = -1
    transactional_id_pattern: Annotated[String | None, Versions(2)] = None


class ListedTransaction(Part):
    """The current state of the transaction for the transactional id."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


@api(66, versions=(0, 2), flexible=0)
class ListTransactionsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String] = []
    transaction_states: list[ListedTransaction] = []
