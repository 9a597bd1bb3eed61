"""Topics: create, list, describe, alter and delete."""

from typing import cast

import msgspec

from penstock.config import broker as config
from penstock.errors import TopicExists, TopicNotFound
from penstock.frontends.http.call import HttpCall
from penstock.frontends.http.options import given, options_struct
from penstock.model.info import PartitionInfo, TopicInfo

TopicOptions = options_struct(
    "TopicOptions", config.TopicOptions, "Settings of a topic, as people write them."
)


class NewTopic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new topic."""

    name: str
    exist_ok: bool = False  # A topic of that name may exist already, and stays as it is.
    options: TopicOptions = TopicOptions()  # type: ignore[valid-type]


class TopicList(msgspec.Struct, frozen=True):
    """Topics."""

    topics: list[str]


class Lanes(msgspec.Struct, frozen=True):
    """Stored messages by lane, the most urgent first."""

    lanes: dict[str, int]


class PartitionList(msgspec.Struct, frozen=True):
    """The partitions of a topic."""

    partitions: list[PartitionInfo]


async def list_topics(call: HttpCall) -> TopicList:
    """List the names of all topics that you may see."""
    return TopicList(call.operations.topics())


async def create_topic(call: HttpCall) -> TopicInfo:
    """Create a topic; the server's defaults apply to options that are not given."""
    wanted: NewTopic = call.body
    options = cast("config.TopicOptions", given(wanted.options))
    try:
        await call.run(call.operations.create_topic(wanted.name, options))
    except TopicExists:
        if not wanted.exist_ok:
            raise
    return await call.run(call.operations.describe_topic(wanted.name))


async def topic_exists(call: HttpCall) -> None:
    """Whether a topic exists: status 204, or 404 if it does not."""
    if not call.operations.topic_exists(call.topic):
        raise TopicNotFound(topic=call.topic)


async def describe_topic(call: HttpCall) -> TopicInfo:
    """Settings, sizes and counts of a topic."""
    return await call.run(call.operations.describe_topic(call.topic))


async def alter_topic(call: HttpCall) -> TopicInfo:
    """Change some settings of a topic; the number of partitions can only grow."""
    await call.run(call.operations.alter_topic(call.topic, cast("config.TopicOptions", given(call.body))))
    return await describe_topic(call)


async def delete_topic(call: HttpCall) -> None:
    """Delete a topic with all its messages and groups."""
    await call.run(call.operations.delete_topic(call.topic))


async def list_partitions(call: HttpCall) -> PartitionList:
    """List the partitions of a topic with start offset, end offset and size."""
    return PartitionList((await describe_topic(call)).partitions)


async def list_lanes(call: HttpCall) -> Lanes:
    """Count the stored messages of a topic by lane."""
    return Lanes(await call.run(call.operations.lanes(call.topic)))
