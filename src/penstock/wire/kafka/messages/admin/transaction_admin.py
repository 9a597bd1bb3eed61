"""Looking at producers and transactions: DescribeProducers, DescribeTransactions, ListTransactions."""

from typing import Annotated, ClassVar

from penstock.wire.kafka.fields import Int16, Int32, Int64, KafkaMessage, Part, String, Versions


class DescribeProducersTopic(Part):
    """The topics to list producers for."""

    name: String = ""
    partition_indexes: list[Int32] = []


class DescribeProducersRequest(KafkaMessage):
    KEY: ClassVar = 61
    VERSIONS: ClassVar = (0, 0)
    FLEXIBLE: ClassVar = 0

    topics: list[DescribeProducersTopic] = []


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


class DescribeProducersResponse(KafkaMessage):
    KEY: ClassVar = 61
    VERSIONS: ClassVar = (0, 0)
    FLEXIBLE: ClassVar = 0

    throttle_time_ms: Int32 = 0
    topics: list[DescribeProducersTopicResult] = []


class DescribeTransactionsRequest(KafkaMessage):
    KEY: ClassVar = 65
    VERSIONS: ClassVar = (0, 0)
    FLEXIBLE: ClassVar = 0

    transactional_ids: list[String] = []


class TransactionTopic(Part):
    """The partitions of a transaction that is under way."""

    topic: String = ""
    partitions: list[Int32] = []


class DescribedTransaction(Part):
    """The current state of the transaction."""

    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TransactionTopic] = []


class DescribeTransactionsResponse(KafkaMessage):
    KEY: ClassVar = 65
    VERSIONS: ClassVar = (0, 0)
    FLEXIBLE: ClassVar = 0

    throttle_time_ms: Int32 = 0
    transaction_states: list[DescribedTransaction] = []


class ListTransactionsRequest(KafkaMessage):
    KEY: ClassVar = 66
    VERSIONS: ClassVar = (0, 2)
    FLEXIBLE: ClassVar = 0

    state_filters: list[String] = []
    producer_id_filters: list[Int64] = []
    duration_filter: Annotated[Int64, Versions(1)] = -1
    transactional_id_pattern: Annotated[String | None, Versions(2)] = None


class ListedTransaction(Part):
    """The current state of the transaction for the transactional id."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


class ListTransactionsResponse(KafkaMessage):
    KEY: ClassVar = 66
    VERSIONS: ClassVar = (0, 2)
    FLEXIBLE: ClassVar = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String] = []
    transaction_states: list[ListedTransaction] = []
