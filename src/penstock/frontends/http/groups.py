"""Groups: listed with their lag and verdict, made, moved, deleted."""

from typing import cast

import msgspec

from penstock import config
from penstock.errors import Forbidden, GroupNotFound
from penstock.frontends.http.call import Call
from penstock.frontends.http.options import given, options_struct
from penstock.info import GroupInfo

GroupOptions = options_struct(
    "GroupOptions", config.GroupOptions, "Settings of a group, as people write them."
)


class GroupList(msgspec.Struct, frozen=True):
    """The groups of a topic."""

    groups: list[GroupInfo]


class Seek(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to move a group: "earliest", "latest", an offset, or a time in RFC 3339."""

    to: str | int
    partition: int | None = None


async def list_groups(call: Call) -> GroupList:
    """The groups of a topic that you may see: how far each is, and a verdict."""
    found: list[GroupInfo] = []
    for name in (await call.run(call.operations.describe_topic(call.topic))).groups:
        try:
            found.append(await call.run(call.operations.describe_group(call.topic, name)))
        except (Forbidden, GroupNotFound):  # None of theirs, or gone meanwhile.
            continue
    return GroupList(found)


async def describe_group(call: Call) -> GroupInfo:
    """How far a group is: its lag in messages and seconds, what is in its way, and a verdict."""
    return await call.run(call.operations.describe_group(call.topic, call.group))


async def set_group(call: Call) -> GroupInfo:
    """Make a group, or change some of its settings."""
    options = cast("config.GroupOptions", given(call.body))
    await call.run(call.operations.create_group(call.topic, call.group, options))
    return await describe_group(call)


async def delete_group(call: Call) -> None:
    """Forget a group and where it was; its consumers are closed."""
    await call.run(call.operations.delete_group(call.topic, call.group))


async def seek_group(call: Call) -> GroupInfo:
    """Move a group to the beginning, the end, an offset or a time; what it holds is no longer held."""
    wanted: Seek = call.body
    await call.run(call.operations.seek(call.topic, call.group, wanted.to, wanted.partition))
    return await describe_group(call)
