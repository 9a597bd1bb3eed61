"""Acknowledgements of share consumers: ShareAcknowledge, and those that a ShareFetch carries.

    acknowledgement batches ──> spans: (type, start, end) ──> with the leases that hold them ──> the broker

A batch names a range of offsets, and one type for all of them or one for each.  All of a partition's
answers are taken, or none: an offset that the member does not hold (any more) refuses them all.

    gap, accept   settled                          release   again at once, and the attempt counts
    reject        a dead letter                    renew     extends the leases that hold it
"""

from collections.abc import Sequence
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.errors import code_of, words_of
from penstock.frontends.kafka.groups.membership import group_code
from penstock.frontends.kafka.shares import ConsumingMember, Share
from penstock.groups.shares import CLOSE, OPEN
from penstock.model.failure import describe_error
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.groups.share import (
    AcknowledgementBatch,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeResponsePartitionData,
    ShareAcknowledgeTopicResponse,
    ShareFetchRequest,
)
from penstock.wire.native import Run

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
RELEASED: Final = describe_error("released by a Kafka share consumer")
REJECTED: Final = "rejected by a Kafka share consumer"

AcknowledgementBatches = Sequence[AcknowledgementBatch]
Span = tuple[int, int, int]  # A type, and the offsets from start up to end.
Answers = dict[int, list[Run]]  # By type.


async def settle(
    call: KafkaCall[ShareFetchRequest | ShareAcknowledgeRequest],
    member: ConsumingMember,
    topic_id: bytes,
    partition: int,
    batches: AcknowledgementBatches,
) -> int:
    """Settle the acknowledgements of a partition; returns their error code."""
    spans = read_spans(batches, RENEW if call.request.is_renew_ack else REJECT)
    if spans is None:
        return Code.INVALID_REQUEST
    topic = call.session.names.get(topic_id)
    if topic is None:
        return Code.UNKNOWN_TOPIC_ID
    share = member.opened(topic)
    if share is None:
        return Code.INVALID_RECORD_STATE
    try:
        return await _settle(call, share, partition, spans)
    except PenstockError as error:
        return Code.UNKNOWN_TOPIC_ID if share.is_gone else code_of(error)


async def _settle(call: KafkaCall[Any], share: Share, partition: int, spans: list[Span]) -> int:
    if share.consumer.at_most_once:
        return Code.NONE  # It was settled before it went out.
    answers = match(share.held(partition), spans)
    if answers is None:
        return Code.INVALID_RECORD_STATE
    await _take(call, share, answers)
    return Code.NONE


async def _take(call: KafkaCall[Any], share: Share, answers: Answers) -> None:
    consumer = share.consumer
    done = answers.get(GAP, []) + answers.get(ACCEPT, [])
    if done:
        await call.run(consumer.ack(done))
    if RELEASE in answers:
        await call.run(consumer.nack(answers[RELEASE], 0, RELEASED))
    if REJECT in answers:
        await call.run(consumer.reject(answers[REJECT], REJECTED))
    if RENEW in answers:
        leases = {(run[0], run[1]) for run in answers[RENEW]}
        await call.run(consumer.extend(sorted(leases), consumer.visibility_ms))


def read_spans(batches: AcknowledgementBatches, highest: int) -> list[Span] | None:
    """Ranges of offsets with their acknowledgement, in order; None if they are invalid."""
    spans: list[Span] = []
    following = 0
    for batch in batches:
        first, end, types = batch.first_offset, batch.last_offset + 1, batch.acknowledge_types
        if not following <= first < end or len(types) not in (1, end - first):
            return None
        if not all(GAP <= kind <= highest for kind in types):
            return None
        following = end
        if len(types) == 1:
            spans.append((types[0], first, end))
        else:
            spans += _runs(first, types)
    return spans


def _runs(first: int, types: list[int]) -> list[Span]:
    found: list[Span] = []
    begin = 0
    for at in range(1, len(types) + 1):
        if at == len(types) or types[at] != types[begin]:
            found.append((types[begin], first + begin, first + at))
            begin = at
    return found


def match(held: list[Run], spans: list[Span]) -> Answers | None:
    """The parts of leases that the spans cover; None if an offset is neither held nor a gap."""
    answers: Answers = {}
    at = 0
    for kind, start, end in spans:
        position = start
        while position < end:
            while at < len(held) and held[at][3] <= position:
                at += 1
            partition, lease, begin, until = held[at] if at < len(held) else (0, 0, end, end)
            if begin > position:
                if kind != GAP:
                    return None
                position = min(begin, end)
                continue
            answers.setdefault(kind, []).append((partition, lease, position, min(until, end)))
            position = min(until, end)
    return answers


async def share_acknowledge(call: KafkaCall[ShareAcknowledgeRequest]) -> ShareAcknowledgeResponse:
    """Acknowledgements of a member, without a fetch."""
    request = call.request
    group, name, epoch = request.group_id or "", request.member_id or "", request.share_session_epoch
    if not group or not name:
        return ShareAcknowledgeResponse(error_code=Code.INVALID_REQUEST)
    if epoch == OPEN:
        return ShareAcknowledgeResponse(error_code=Code.INVALID_SHARE_SESSION_EPOCH)
    try:
        found = call.shared.shares.session_of(call.operations, group, name, call.session, epoch)
    except PenstockError as error:
        return ShareAcknowledgeResponse(error_code=group_code(error), error_message=words_of(error))
    if not isinstance(found, tuple):
        return ShareAcknowledgeResponse(error_code=found)
    member, _ = found
    responses = [await _topic(call, member, topic) for topic in request.topics]
    if epoch == CLOSE:
        call.shared.shares.end_session(member)
    return ShareAcknowledgeResponse(acquisition_lock_timeout_ms=member.lock_ms, responses=responses)


async def _topic(
    call: KafkaCall[ShareAcknowledgeRequest], member: ConsumingMember, topic: AcknowledgeTopic
) -> ShareAcknowledgeTopicResponse:
    parts = [
        ShareAcknowledgeResponsePartitionData(
            partition_index=part.partition_index,
            error_code=await settle(
                call, member, topic.topic_id, part.partition_index, part.acknowledgement_batches
            ),
        )
        for part in topic.partitions
    ]
    return ShareAcknowledgeTopicResponse(topic_id=topic.topic_id, partitions=parts)


APIS = (Api(ShareAcknowledgeRequest, ShareAcknowledgeResponse, share_acknowledge),)
