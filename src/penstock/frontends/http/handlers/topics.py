"""Topics: made, listed, described, altered, deleted."""

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
    """A topic to make."""

    name: str
    exist_ok: bool = False  # A topic of that name may exist already, and stays as it is.
    options: TopicOptions = TopicOptions()  # type: ignore[valid-type]


class TopicList(msgspec.Struct, frozen=True):
    """The topics there are."""

    topics: list[str]


class Lanes(msgspec.Struct, frozen=True):
    """Stored messages by lane, the most urgent first."""

    lanes: dict[str, int]


class PartitionList(msgspec.Struct, frozen=True):
    """The partitions of a topic."""

    partitions: list[PartitionInfo]


async def list_topics(call: HttpCall) -> TopicList:
    """The names of all topics, as far as you may see them."""
    return TopicList(await call.run(call.operations.topics()))


async def create_topic(call: HttpCall) -> TopicInfo:
    """Make a topic; what its options do not say is as the server was set up."""
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
    if not await call.run(call.operations.topic_exists(call.topic)):
        raise TopicNotFound(topic=call.topic)


async def describe_topic(call: HttpCall) -> TopicInfo:
    """Settings, sizes and counts of a topic."""
    return await call.run(call.operations.describe_topic(call.topic))


async def alter_topic(call: HttpCall) -> TopicInfo:
    """Change some of a topic's settings; partitions may only become more."""
    await call.run(call.operations.alter_topic(call.topic, cast("config.TopicOptions", given(call.body))))
    return await call.run(call.operations.describe_topic(call.topic))


async def delete_topic(call: HttpCall) -> None:
    """Remove a topic with all its messages and groups."""
    await call.run(call.operations.delete_topic(call.topic))


async def list_partitions(call: HttpCall) -> PartitionList:
    """The partitions of a topic: where each begins and ends, and how large it is."""
    return PartitionList((await call.run(call.operations.describe_topic(call.topic))).partitions)


async def list_lanes(call: HttpCall) -> Lanes:
    """How many messages a topic has in each lane."""
    return Lanes(await call.run(call.operations.lanes(call.topic)))
