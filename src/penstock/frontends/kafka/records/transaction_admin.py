"""Descriptions of producers and transactions: DescribeProducers, DescribeTransactions, ListTransactions.

The state of a transaction comes from the broker's ledger, in Kafka's terms.  A transactional id is shown to
its owner, to admins, and to clients with a grant or an ACL for it; for all others it does not exist.  Its
topics are shown to clients that may describe them, the producers of a partition to clients that may read the
topic.
"""

from functools import partial
from typing import Final

from penstock.errors import InvalidValue, PenstockError
from penstock.frontends.kafka.call import Api, KafkaCall, by_partition
from penstock.frontends.kafka.errors import code_of, words_of
from penstock.frontends.kafka.records.transactions import coordinator_code
from penstock.groups.patterns import problem_of
from penstock.groups.transactions import ActiveProducer, TransactionState
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.admin.transaction_admin import (
    DescribedTransaction,
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResult,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ProducerState,
)
from penstock.wire.kafka.messages.parts import TopicPartitions

STATES: Final = {
    "empty": "Empty",
    "ongoing": "Ongoing",
    "committing": "PrepareCommit",
    "aborting": "PrepareAbort",
    "committed": "CompleteCommit",
    "aborted": "CompleteAbort",
}
NEVER_HERE: Final = frozenset({"Dead", "PrepareEpochFence"})  # States of Kafka's that nothing is in.


def describe_transactions(call: KafkaCall[DescribeTransactionsRequest]) -> DescribeTransactionsResponse:
    """The states of transactional ids."""
    return DescribeTransactionsResponse(
        transaction_states=[_described(call, name) for name in call.request.transactional_ids]
    )


def _described(call: KafkaCall[DescribeTransactionsRequest], name: str) -> DescribedTransaction:
    if not name:
        return DescribedTransaction(error_code=Code.INVALID_REQUEST)
    try:
        state = call.operations.transaction(name)
    except PenstockError as error:
        return DescribedTransaction(error_code=coordinator_code(error), transactional_id=name)
    if state is None:
        return DescribedTransaction(error_code=Code.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=name)
    known = state.known
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(known.partitions):
        topics.setdefault(topic, []).append(number)
    return DescribedTransaction(
        transactional_id=name,
        transaction_state=STATES[known.state],
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=state.begun_ms,
        producer_id=known.producer_id,
        producer_epoch=known.epoch,
        topics=[
            TopicPartitions(topic, numbers) for topic, numbers in topics.items() if _is_listed(call, topic)
        ],
    )


def _is_listed(call: KafkaCall[DescribeTransactionsRequest], topic: str) -> bool:
    try:
        call.operations.layout(topic)
    except PenstockError:
        return False
    return True


async def list_transactions(call: KafkaCall[ListTransactionsRequest]) -> ListTransactionsResponse:
    """All transactional ids, or those that match the filters."""
    request = call.request
    pattern = request.transactional_id_pattern or ""
    if problem_of(pattern):
        return ListTransactionsResponse(error_code=Code.INVALID_REGULAR_EXPRESSION)
    try:
        names = await call.run(call.operations.transactional_ids(pattern))
    except InvalidValue:  # It takes too long.
        return ListTransactionsResponse(error_code=Code.INVALID_REGULAR_EXPRESSION)
    found = [call.operations.transaction(name) for name in names]
    known_states = {*STATES.values(), *NEVER_HERE}
    return ListTransactionsResponse(
        unknown_state_filters=[state for state in request.state_filters if state not in known_states],
        transaction_states=[
            ListedTransaction(state.name, state.known.producer_id, STATES[state.known.state])
            for state in found
            if state is not None and _is_wanted(call, state)
        ],
    )


def _is_wanted(call: KafkaCall[ListTransactionsRequest], state: TransactionState) -> bool:
    request = call.request
    if request.state_filters and STATES[state.known.state] not in request.state_filters:
        return False
    if request.producer_id_filters and state.known.producer_id not in request.producer_id_filters:
        return False
    age_ms = call.shared.clock.wall_ms() - state.begun_ms if state.begun_ms >= 0 else -1
    return request.duration_filter < 0 or age_ms > request.duration_filter


def describe_producers(call: KafkaCall[DescribeProducersRequest]) -> DescribeProducersResponse:
    """The active producers of partitions."""
    asked = ((topic.name, topic.partition_indexes) for topic in call.request.topics)
    return DescribeProducersResponse(
        topics=by_partition(asked, DescribeProducersTopicResult, partial(_producers, call))
    )


def _producers(
    call: KafkaCall[DescribeProducersRequest], topic: str, number: int
) -> DescribeProducersPartition:
    try:
        found = call.operations.active_producers(topic, number)
    except PenstockError as error:
        return DescribeProducersPartition(number, code_of(error), words_of(error))
    return DescribeProducersPartition(
        partition_index=number, active_producers=list(map(_described_producer, found))
    )


def _described_producer(producer: ActiveProducer) -> ProducerState:
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_ms,
        coordinator_epoch=0 if producer.named else -1,
        current_txn_start_offset=producer.first_offset,
    )


APIS = (
    Api(DescribeProducersRequest, DescribeProducersResponse, describe_producers),
    Api(DescribeTransactionsRequest, DescribeTransactionsResponse, describe_transactions),
    Api(ListTransactionsRequest, ListTransactionsResponse, list_transactions),
)
