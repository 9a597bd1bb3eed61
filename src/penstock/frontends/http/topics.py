"""Topics: made, listed, described, altered, deleted."""

import types
from datetime import datetime, timedelta
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from penstock import config
from penstock.frontends.http.call import Call
from penstock.info import PartitionInfo, TopicInfo


def plain_type(hint: Any) -> Any:
    """A type without what only Python has: in JSON a duration is text or seconds, and so is a time."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    return Union[tuple(kind for kind in get_args(hint) if kind not in (timedelta, datetime))]  # noqa: UP007 - made


def options_struct(name: str, options: Any, docstring: str) -> type[msgspec.Struct]:
    """A struct with the fields of a class of options, none of which must be given."""
    hints = get_type_hints(options)
    return msgspec.defstruct(
        name,
        [(field, Union[plain_type(hint), UnsetType], UNSET) for field, hint in hints.items()],  # noqa: UP007
        namespace={"__doc__": docstring},
        module=__name__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


TopicOptions = options_struct(
    "TopicOptions", config.TopicOptions, "Settings of a topic, as people write them."
)


class NewTopic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic to make."""

    name: str
    options: TopicOptions = TopicOptions()  # type: ignore[valid-type]


class TopicList(msgspec.Struct, frozen=True):
    """The topics there are."""

    topics: list[str]


class PartitionList(msgspec.Struct, frozen=True):
    """The partitions of a topic."""

    partitions: list[PartitionInfo]


def given(options: msgspec.Struct) -> dict[str, Any]:
    """The options that were given."""
    found = msgspec.structs.asdict(options)
    return {name: value for name, value in found.items() if value is not UNSET}


async def list_topics(call: Call) -> TopicList:
    """The names of all topics, as far as you may see them."""
    return TopicList(await call.run(call.operations.topics()))


async def create_topic(call: Call) -> TopicInfo:
    """Make a topic; what its options do not say is as the server was set up."""
    wanted: NewTopic = call.body
    await call.run(
        call.operations.create_topic(wanted.name, cast("config.TopicOptions", given(wanted.options)))
    )
    return await call.run(call.operations.describe_topic(wanted.name))


async def describe_topic(call: Call) -> TopicInfo:
    """Settings, sizes and counts of a topic."""
    return await call.run(call.operations.describe_topic(call.topic))


async def alter_topic(call: Call) -> TopicInfo:
    """Change some of a topic's settings; partitions may only become more."""
    await call.run(call.operations.alter_topic(call.topic, cast("config.TopicOptions", given(call.body))))
    return await call.run(call.operations.describe_topic(call.topic))


async def delete_topic(call: Call) -> None:
    """Remove a topic with all its messages and groups."""
    await call.run(call.operations.delete_topic(call.topic))


async def list_partitions(call: Call) -> PartitionList:
    """The partitions of a topic: where each begins and ends, and how large it is."""
    return PartitionList((await call.run(call.operations.describe_topic(call.topic))).partitions)
