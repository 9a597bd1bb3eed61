"""Start offsets of share groups: DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets.

The start offset of a share partition is the floor of the queue group: everything below it is settled.
To alter it is to seek, and to delete it is to delete the queue group from the topic.  Both are refused while
the group has members, as in Kafka.
"""

from typing import Any, Final

from penstock.errors import GroupNotFound, InvalidName, PenstockError
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.errors import code_of, words_of
from penstock.frontends.kafka.groups.membership import group_code
from penstock.model.info import PartitionLag
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.groups.share_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

NOT_STARTED: Final = -1  # The group is not on that partition.
NON_EMPTY: Final = "the group has members; close its consumers first"

Partition = DescribeShareGroupOffsetsResponsePartition


async def describe_share_group_offsets(
    call: KafkaCall[DescribeShareGroupOffsetsRequest],
) -> DescribeShareGroupOffsetsResponse:
    """The start offsets of share groups, on the given partitions or on all."""
    groups = [await _described(call, each) for each in call.request.groups]
    return DescribeShareGroupOffsetsResponse(groups=groups)


async def _described(
    call: KafkaCall[Any], asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    name = asked.group_id
    try:
        await _check_share_group(call, name)
        if asked.topics is None:
            wanted: list[tuple[str, list[int] | None]] = [
                (topic, None) for topic in await call.run(call.operations.queued_topics(name))
            ]
        else:
            wanted = [(topic.topic_name, topic.partitions) for topic in asked.topics]
        topics = [await _topic(call, name, *each) for each in wanted]
    except PenstockError as error:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=name, error_code=group_code(error), error_message=words_of(error)
        )
    return DescribeShareGroupOffsetsResponseGroup(group_id=name, topics=topics)


async def _check_share_group(call: KafkaCall[Any], name: str) -> bool:
    """Whether the group has no members; ``GroupNotFound`` if it is of another kind."""
    if not name:
        raise InvalidName(kind="group", name=name, why="it is empty")
    state = await call.run(call.operations.member_group(name))
    if state is not None and state.kind != "share":
        raise GroupNotFound(topic="any topic", group=name)
    return state is None or state.state == "Empty"


async def _topic(
    call: KafkaCall[Any], group: str, topic: str, numbers: list[int] | None
) -> DescribeShareGroupOffsetsResponseTopic:
    answer = DescribeShareGroupOffsetsResponseTopic(topic_name=topic)
    try:
        answer.topic_id = call.operations.layout(topic).id
        info = await call.run(call.operations.describe_group(topic, group))
        known = {one.partition: one for one in info.partitions}
    except GroupNotFound:
        known = {}
    except PenstockError as error:
        code, why = code_of(error), words_of(error)
        answer.partitions = [
            Partition(partition_index=number, start_offset=NOT_STARTED, error_code=code, error_message=why)
            for number in numbers or ()
        ]
        return answer
    answer.partitions = [_partition(number, known.get(number)) for number in numbers or known]
    return answer


def _partition(number: int, lag: PartitionLag | None) -> Partition:
    if lag is None:
        return Partition(partition_index=number, start_offset=NOT_STARTED)
    return Partition(partition_index=number, start_offset=lag.floor, lag=lag.lag)


async def alter_share_group_offsets(
    call: KafkaCall[AlterShareGroupOffsetsRequest],
) -> AlterShareGroupOffsetsResponse:
    """Move an empty share group."""
    request = call.request
    try:
        empty = await _check_share_group(call, request.group_id)
    except PenstockError as error:
        return AlterShareGroupOffsetsResponse(error_code=group_code(error), error_message=words_of(error))
    if not empty:
        return AlterShareGroupOffsetsResponse(error_code=Code.NON_EMPTY_GROUP, error_message=NON_EMPTY)
    return AlterShareGroupOffsetsResponse(
        responses=[await _altered(call, request.group_id, topic) for topic in request.topics]
    )


async def _altered(
    call: KafkaCall[Any], group: str, wanted: AlterShareGroupOffsetsRequestTopic
) -> AlterShareGroupOffsetsResponseTopic:
    answer = AlterShareGroupOffsetsResponseTopic(topic_name=wanted.topic_name)
    try:
        layout = call.operations.layout(wanted.topic_name)
        answer.topic_id = layout.id
        await call.run(call.operations.create_group(wanted.topic_name, group, {"kind": "queue"}))
    except PenstockError as error:
        refused = (code_of(error), words_of(error))
        answer.partitions = [
            AlterShareGroupOffsetsResponsePartition(each.partition_index, *refused)
            for each in wanted.partitions
        ]
        return answer
    answer.partitions = [await _moved(call, group, layout.topic, each) for each in wanted.partitions]
    return answer


async def _moved(
    call: KafkaCall[Any], group: str, topic: str, wanted: AlterShareGroupOffsetsRequestPartition
) -> AlterShareGroupOffsetsResponsePartition:
    number = wanted.partition_index
    try:
        await call.run(call.operations.seek(topic, group, wanted.start_offset, number))
    except PenstockError as error:
        return AlterShareGroupOffsetsResponsePartition(number, code_of(error), words_of(error))
    return AlterShareGroupOffsetsResponsePartition(number)


async def delete_share_group_offsets(
    call: KafkaCall[DeleteShareGroupOffsetsRequest],
) -> DeleteShareGroupOffsetsResponse:
    """Delete an empty share group from topics."""
    name = call.request.group_id
    try:
        empty = await _check_share_group(call, name)
        if await call.run(call.operations.member_group(name)) is None:
            raise GroupNotFound(topic="any topic", group=name)
    except PenstockError as error:
        return DeleteShareGroupOffsetsResponse(error_code=group_code(error), error_message=words_of(error))
    if not empty:
        return DeleteShareGroupOffsetsResponse(error_code=Code.NON_EMPTY_GROUP, error_message=NON_EMPTY)
    topics = [topic.topic_name for topic in call.request.topics]
    return DeleteShareGroupOffsetsResponse(responses=[await _deleted(call, name, topic) for topic in topics])


async def _deleted(call: KafkaCall[Any], group: str, topic: str) -> DeleteShareGroupOffsetsResponseTopic:
    answer = DeleteShareGroupOffsetsResponseTopic(topic_name=topic)
    try:
        answer.topic_id = call.operations.layout(topic).id
        await call.run(call.operations.delete_group(topic, group))
    except PenstockError as error:
        answer.error_code, answer.error_message = code_of(error), words_of(error)
    return answer


APIS = (
    Api(DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse, describe_share_group_offsets),
    Api(AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, alter_share_group_offsets),
    Api(DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse, delete_share_group_offsets),
)
