"""How far a group has come: OffsetCommit, OffsetFetch, OffsetDelete.

A commit is answered when it is as durable as its topic promises.  Topics of one request are
committed side by side: each has journals of its own, and one sync serves all of them."""

import asyncio

from penstock.broker.frontend import METADATA_BYTES_MAX
from penstock.errors import PenstockError, TopicNotFound, UnavailableError
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.errors import code_of
from penstock.frontends.kafka.groups.membership import group_code
from penstock.groups.commits import Commit
from penstock.groups.rebalance import Committer
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.groups.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from penstock.wire.kafka.messages.parts import PartitionError

BY_ID = 10  # From this version on topics are named by their ids.
BY_GROUP = 8  # From this version on several groups are asked for at a time.
NO_COMMIT = Commit(-1)


# Committing.


async def offset_commit(call: KafkaCall[OffsetCommitRequest]) -> OffsetCommitResponse:
    """Commit offsets of a group."""
    topics = await asyncio.gather(*(_commit_topic(call, topic) for topic in call.request.topics))
    return OffsetCommitResponse(topics=list(topics))


async def _commit_topic(
    call: KafkaCall[OffsetCommitRequest], topic: OffsetCommitRequestTopic
) -> OffsetCommitResponseTopic:
    name = call.session.names.get(topic.topic_id) if call.version >= BY_ID else topic.name
    if name is None:
        codes = {part.partition_index: int(Code.UNKNOWN_TOPIC_ID) for part in topic.partitions}
    else:
        codes = await _commit_partitions(call, name, topic.partitions)
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            PartitionError(partition_index=number, error_code=code) for number, code in codes.items()
        ],
    )


async def _commit_partitions(
    call: KafkaCall[OffsetCommitRequest], topic: str, partitions: list[OffsetCommitRequestPartition]
) -> dict[int, int]:
    """The error code of each partition's commit."""
    request = call.request
    by = Committer(
        member=request.member_id,
        instance=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
    )
    try:
        count = call.operations.layout(topic).partitions
        codes = {part.partition_index: _check(part, count) for part in partitions}
        commits = {
            part.partition_index: _commit(part) for part in partitions if not codes[part.partition_index]
        }
        code = int(Code.NONE)
        if commits:
            code = await call.run(call.operations.commit_group_offsets(topic, request.group_id, commits, by))
    except PenstockError as error:
        return dict.fromkeys((part.partition_index for part in partitions), _topic_code(error))
    return {number: refused or code for number, refused in codes.items()}


def _check(part: OffsetCommitRequestPartition, count: int) -> int:
    if not 0 <= part.partition_index < count:
        return Code.UNKNOWN_TOPIC_OR_PARTITION
    if len((part.committed_metadata or "").encode()) > METADATA_BYTES_MAX:
        return Code.OFFSET_METADATA_TOO_LARGE
    return Code.NONE


def _commit(part: OffsetCommitRequestPartition) -> Commit:
    return Commit(part.committed_offset, part.committed_leader_epoch, part.committed_metadata or "")


def _topic_code(error: PenstockError) -> int:
    """The error code of a topic; an invalid name in the error is that of the group."""
    return Code.INVALID_GROUP_ID if error.code == "NAME_INVALID" else code_of(error)


# Reading.


async def offset_fetch(call: KafkaCall[OffsetFetchRequest]) -> OffsetFetchResponse:
    """The committed offsets of groups."""
    request = call.request
    if call.version >= BY_GROUP:
        return OffsetFetchResponse(groups=[await _group(call, group) for group in request.groups])
    topics = request.topics
    asked = None if topics is None else [_asked(topic.name, topic.partition_indexes) for topic in topics]
    return _flat(await _group(call, OffsetFetchRequestGroup(group_id=request.group_id, topics=asked)))


def _asked(name: str, partitions: list[int]) -> OffsetFetchRequestTopics:
    return OffsetFetchRequestTopics(name=name, partition_indexes=partitions)


def _flat(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """The one group of an older version."""
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=part.partition_index,
                    committed_offset=part.committed_offset,
                    committed_leader_epoch=part.committed_leader_epoch,
                    metadata=part.metadata,
                    error_code=part.error_code or group.error_code,
                )
                for part in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


async def _group(
    call: KafkaCall[OffsetFetchRequest], group: OffsetFetchRequestGroup
) -> OffsetFetchResponseGroup:
    name = group.group_id
    try:
        placed = await call.run(call.operations.topics_with_offsets(name))
        code = Code.NONE
        if group.member_id and group.member_epoch >= 0:
            code = call.operations.check_reader(name, group.member_id, group.member_epoch)
        if code:
            return OffsetFetchResponseGroup(group_id=name, error_code=code)
        return OffsetFetchResponseGroup(group_id=name, topics=await _topics(call, group, placed))
    except PenstockError as error:
        return OffsetFetchResponseGroup(group_id=name, error_code=group_code(error))


async def _topics(
    call: KafkaCall[OffsetFetchRequest], group: OffsetFetchRequestGroup, placed: list[str]
) -> list[OffsetFetchResponseTopics]:
    if group.topics is None:
        everything = [await _topic(call, group.group_id, _asked(name, []), name) for name in placed]
        return [topic for topic in everything if topic.partitions]
    named = [(topic, _name(call, topic)) for topic in group.topics]
    return [await _topic(call, group.group_id, topic, name) for topic, name in named]


def _name(call: KafkaCall[OffsetFetchRequest], topic: OffsetFetchRequestTopics) -> str | None:
    return call.session.names.get(topic.topic_id) if call.version >= BY_ID else topic.name


async def _topic(
    call: KafkaCall[OffsetFetchRequest], group: str, topic: OffsetFetchRequestTopics, name: str | None
) -> OffsetFetchResponseTopics:
    """Committed offsets on one topic; of all partitions that have one, if none is asked for."""
    commits: dict[int, Commit] = {}
    moving: list[int] = []
    code = int(Code.NONE)
    numbers = topic.partition_indexes
    identity = topic.topic_id
    if name is None:
        code = Code.UNKNOWN_TOPIC_ID
    else:
        try:
            if not numbers:
                numbers = sorted(await call.run(call.operations.committed_offsets(name, group)))
            if call.request.require_stable:  # Before they are read: what ends in between has changed them.
                moving = await call.run(call.operations.unsettled_offsets(name, group, numbers))
            commits = await call.run(call.operations.committed_offsets(name, group))
            identity = call.operations.layout(name).id
        except TopicNotFound:
            pass  # The group has no offsets there.
        except UnavailableError:
            raise  # As an error of the group, by which clients look for its coordinator and ask again.
        except PenstockError as error:
            code = code_of(error)
    return OffsetFetchResponseTopics(
        name=name or "",
        topic_id=identity,
        partitions=[
            _partition(number, commits.get(number, NO_COMMIT), code, moving=number in moving)
            for number in numbers
        ],
    )


def _partition(number: int, commit: Commit, code: int, *, moving: bool) -> OffsetFetchResponsePartitions:
    if moving:
        commit, code = NO_COMMIT, Code.UNSTABLE_OFFSET_COMMIT
    return OffsetFetchResponsePartitions(
        partition_index=number,
        committed_offset=commit.offset,
        committed_leader_epoch=commit.leader_epoch,
        metadata=commit.metadata,
        error_code=code,
    )


# Forgetting.


async def offset_delete(call: KafkaCall[OffsetDeleteRequest]) -> OffsetDeleteResponse:
    """Delete committed offsets of a group."""
    request = call.request
    try:
        if await call.run(call.operations.member_group(request.group_id)) is None:
            return OffsetDeleteResponse(error_code=Code.GROUP_ID_NOT_FOUND)
    except PenstockError as error:
        return OffsetDeleteResponse(error_code=group_code(error))
    return OffsetDeleteResponse(topics=[await _forget(call, topic) for topic in request.topics])


async def _forget(
    call: KafkaCall[OffsetDeleteRequest], topic: OffsetDeleteRequestTopic
) -> OffsetDeleteResponseTopic:
    numbers = [part.partition_index for part in topic.partitions]
    there = range(0)
    try:
        there = range(call.operations.layout(topic.name).partitions)
        wanted = [number for number in numbers if number in there]
        forgetting = call.operations.forget_offsets(topic.name, call.request.group_id, wanted)
        code = int(await call.run(forgetting))
    except PenstockError as error:
        code = code_of(error)
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            PartitionError(number, code if number in there or code else Code.UNKNOWN_TOPIC_OR_PARTITION)
            for number in numbers
        ],
    )


APIS = (
    Api(OffsetCommitRequest, OffsetCommitResponse, offset_commit),
    Api(OffsetFetchRequest, OffsetFetchResponse, offset_fetch),
    Api(OffsetDeleteRequest, OffsetDeleteResponse, offset_delete),
)
