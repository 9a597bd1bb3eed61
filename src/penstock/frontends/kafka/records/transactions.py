"""Transactions: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn.

    client                                     broker (broker/kafka/transactions.py)
    InitProducerId       producer, epoch       init_producer
    AddPartitionsToTxn   topic by topic        enlist               all of them at once, for one sync
    Produce                                    append_records       the batches say that they are of it
    AddOffsetsToTxn      a group               enlist_group
    TxnOffsetCommit      topic by topic        enlist_commits
    EndTxn                                     end_transaction,     answered when every reader may see it
                                               end_epoch

The finalized feature ``transaction.version`` (ApiVersions) is 2 (KIP-890): clients that know it leave out
AddPartitionsToTxn (Produce from 12 on enlists the partitions of its batches) and AddOffsetsToTxn
(TxnOffsetCommit from 5 on enlists its group), and get their next epoch from EndTxn (from 5 on).  The
versions of a request say which version of transactions its client means.

What a client does about an error depends on its number.  *Fenced* is 90 to those who know that number,
and 47 (a wrong epoch) to the others, who would not know what to do.  What can be helped by an abort
is 120 to those who know it.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.errors import (
    Forbidden,
    InvalidValue,
    NotOwner,
    OutcomeUnknown,
    PartitionNotFound,
    PenstockError,
    ProducerFenced,
    ServerUnreachable,
    TopicNotFound,
    TransactionNotOpen,
)
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.errors import code_of
from penstock.groups.commits import Commit
from penstock.groups.rebalance import Committer
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.fields import KafkaMessage
from penstock.wire.kafka.messages.parts import NamePartitions, PartitionError
from penstock.wire.kafka.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.kafka.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)

# From these versions on, clients know what a fence is.
FENCED_SINCE: Final[dict[type[KafkaMessage], int]] = {
    InitProducerIdRequest: 4,
    AddPartitionsToTxnRequest: 2,
    AddOffsetsToTxnRequest: 2,
    EndTxnRequest: 2,
}
# From these versions on, a client means transactions of version 2.
GROUPS_ENLISTED_SINCE: Final = 5  # TxnOffsetCommit
NEXT_EPOCH_SINCE: Final = 5  # EndTxn
ABORTABLE_SINCE: Final = 4  # TxnOffsetCommit
OFFENDING: Final = {
    "timeout_ms": Code.INVALID_TRANSACTION_TIMEOUT,
    "metadata": Code.OFFSET_METADATA_TOO_LARGE,
}


async def init_producer_id(call: KafkaCall[InitProducerIdRequest]) -> InitProducerIdResponse:
    """A producer id, for idempotent writes; with a transactional id, its next epoch."""
    asked = call.request
    if (asked.producer_id < 0) != (asked.producer_epoch < 0):
        return _no_producer(Code.INVALID_REQUEST)
    try:
        work = call.operations.init_producer(
            asked.transactional_id, asked.transaction_timeout_ms, asked.producer_id, asked.producer_epoch
        )
        producer_id, epoch = await call.run(work)
    except Forbidden:
        nameless = asked.transactional_id is None
        code = Code.CLUSTER_AUTHORIZATION_FAILED if nameless else Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return _no_producer(code)
    except PenstockError as error:
        return _no_producer(_code(call, error))
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)


def _no_producer(code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)


# What belongs to a transaction.


async def add_partitions(call: KafkaCall[AddPartitionsToTxnRequest]) -> AddPartitionsToTxnResponse:
    """Add partitions to the transaction."""
    topics = call.request.v3_and_below_topics
    unknown = {topic.name: _unknown(call, topic) for topic in topics}
    if any(unknown.values()):  # Then none is added.
        refused = [
            _added(topic, dict.fromkeys(topic.partitions, Code.OPERATION_NOT_ATTEMPTED) | unknown[topic.name])
            for topic in topics
        ]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=refused)
    answers = await asyncio.gather(*(_add_topic(call, topic) for topic in topics))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=answers)


def _unknown(call: KafkaCall[Any], topic: NamePartitions) -> dict[int, int]:
    """The partitions that do not exist."""
    try:
        count = call.operations.layout(topic.name).partitions
    except TopicNotFound as error:
        return dict.fromkeys(topic.partitions, code_of(error))
    except PenstockError:
        return {}  # Decided when they are added.
    absent = (number for number in topic.partitions if not 0 <= number < count)
    return dict.fromkeys(absent, int(Code.UNKNOWN_TOPIC_OR_PARTITION))


async def _add_topic(
    call: KafkaCall[AddPartitionsToTxnRequest], topic: NamePartitions
) -> AddPartitionsToTxnTopicResult:
    asked = call.request
    codes = dict.fromkeys(topic.partitions, 0)
    try:
        work = call.operations.enlist(
            topic.name,
            topic.partitions,
            asked.v3_and_below_transactional_id,
            asked.v3_and_below_producer_id,
            asked.v3_and_below_producer_epoch,
        )
        await call.run(work)
    except PenstockError as error:
        codes = _codes(call, topic.partitions, error)
    return _added(topic, codes)


def _added(topic: NamePartitions, codes: Mapping[int, int]) -> AddPartitionsToTxnTopicResult:
    results = [
        AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=codes[number])
        for number in topic.partitions
    ]
    return AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=results)


def partitions_refused(request: AddPartitionsToTxnRequest, code: int) -> AddPartitionsToTxnResponse:
    """The response that refuses every partition."""
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            _added(topic, dict.fromkeys(topic.partitions, code)) for topic in request.v3_and_below_topics
        ]
    )


async def add_offsets(call: KafkaCall[AddOffsetsToTxnRequest]) -> AddOffsetsToTxnResponse:
    """Add a group whose offsets the transaction will commit."""
    asked = call.request
    if not _may_commit(call, asked.group_id):
        return AddOffsetsToTxnResponse(error_code=Code.GROUP_AUTHORIZATION_FAILED)
    try:
        work = call.operations.enlist_group(
            asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.group_id
        )
        await call.run(work)
    except PenstockError as error:
        return AddOffsetsToTxnResponse(error_code=_code(call, error))
    return AddOffsetsToTxnResponse()


async def commit_offsets(call: KafkaCall[TxnOffsetCommitRequest]) -> TxnOffsetCommitResponse:
    """Add offsets that are committed with the transaction."""
    asked = call.request
    if not _may_commit(call, asked.group_id):
        return commits_refused(asked, Code.GROUP_AUTHORIZATION_FAILED)
    answers = await asyncio.gather(*(_commit_topic(call, topic) for topic in call.request.topics))
    return TxnOffsetCommitResponse(topics=answers)


def _may_commit(call: KafkaCall[Any], group: str) -> bool:
    permissions = call.session.identity.permissions
    return not call.shared.gateway.required or permissions.allows("consume", None, group)


async def _commit_topic(
    call: KafkaCall[TxnOffsetCommitRequest], topic: TxnOffsetCommitRequestTopic
) -> TxnOffsetCommitResponseTopic:
    asked = call.request
    numbers = [partition.partition_index for partition in topic.partitions]
    commits = {
        partition.partition_index: Commit(
            partition.committed_offset, partition.committed_leader_epoch, partition.committed_metadata or ""
        )
        for partition in topic.partitions
    }
    by = Committer(
        member=asked.member_id,
        instance=asked.group_instance_id,
        generation=asked.generation_id,
        transactional=True,
    )
    try:
        work = call.operations.enlist_commits(
            topic.name,
            asked.group_id,
            commits,
            asked.transactional_id,
            asked.producer_id,
            asked.producer_epoch,
            by,
            call.version >= GROUPS_ENLISTED_SINCE,
        )
        codes = dict.fromkeys(numbers, int(await call.run(work)))
    except PenstockError as error:
        codes = _codes(call, numbers, error)
    return _committed(topic.name, numbers, codes)


def _committed(name: str, numbers: list[int], codes: Mapping[int, int]) -> TxnOffsetCommitResponseTopic:
    results = [PartitionError(partition_index=number, error_code=codes[number]) for number in numbers]
    return TxnOffsetCommitResponseTopic(name=name, partitions=results)


def commits_refused(request: TxnOffsetCommitRequest, code: int) -> TxnOffsetCommitResponse:
    """The response that refuses every partition."""
    answers = []
    for topic in request.topics:
        numbers = [partition.partition_index for partition in topic.partitions]
        answers.append(_committed(topic.name, numbers, dict.fromkeys(numbers, code)))
    return TxnOffsetCommitResponse(topics=answers)


async def end(call: KafkaCall[EndTxnRequest]) -> EndTxnResponse:
    """Commit or abort the transaction."""
    asked = call.request
    try:
        bumps = call.version >= NEXT_EPOCH_SINCE
        end_it = call.operations.end_epoch if bumps else call.operations.end_transaction
        work = end_it(asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.committed)
        producer_id, epoch = await call.run(work)
    except PenstockError as error:
        return EndTxnResponse(error_code=_code(call, error))
    return EndTxnResponse(producer_id=producer_id, producer_epoch=epoch)


# Errors.


def _code(call: KafkaCall[Any], error: PenstockError) -> int:
    """The error code for clients of this version."""
    if isinstance(error, ProducerFenced):
        knows = call.version >= FENCED_SINCE.get(call.api.request, call.version + 1)
        return Code.PRODUCER_FENCED if knows else Code.INVALID_PRODUCER_EPOCH
    if isinstance(error, TransactionNotOpen) and call.api.request is TxnOffsetCommitRequest:
        abortable = call.version >= ABORTABLE_SINCE
        return Code.TRANSACTION_ABORTABLE if abortable else Code.INVALID_TXN_STATE
    if isinstance(error, InvalidValue):
        return OFFENDING.get(error.name, Code.INVALID_REQUEST)
    if isinstance(error, Forbidden) and error.on.startswith(("the broker", "transactional id")):
        return Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return coordinator_code(error)


def coordinator_code(error: PenstockError) -> int:
    """The error code of a coordinator, by which clients look it up again."""
    if isinstance(error, NotOwner):
        return Code.NOT_COORDINATOR
    if isinstance(error, OutcomeUnknown | ServerUnreachable):
        return Code.COORDINATOR_NOT_AVAILABLE
    return code_of(error)


def _codes(call: KafkaCall[Any], numbers: Iterable[int], error: PenstockError) -> dict[int, int]:
    """The error codes by partition: if one of them does not exist, the others were not tried."""
    code = _code(call, error)
    if not isinstance(error, PartitionNotFound):
        return dict.fromkeys(numbers, code)
    missing = error.partition
    return {number: code if number == missing else Code.OPERATION_NOT_ATTEMPTED for number in numbers}


APIS = (
    Api(InitProducerIdRequest, InitProducerIdResponse, init_producer_id),
    Api(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, add_partitions, refusal=partitions_refused),
    Api(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, add_offsets),
    Api(TxnOffsetCommitRequest, TxnOffsetCommitResponse, commit_offsets, refusal=commits_refused),
    Api(EndTxnRequest, EndTxnResponse, end),
)
