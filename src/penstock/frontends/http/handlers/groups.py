"""Groups: list with lag and verdict, create, move and delete."""

from typing import cast

import msgspec

from penstock.config import broker as config
from penstock.errors import Forbidden, GroupNotFound
from penstock.frontends.http.call import HttpCall
from penstock.frontends.http.options import given, options_struct
from penstock.model.info import GroupInfo

GroupOptions = options_struct(
    "GroupOptions", config.GroupOptions, "Settings of a group, as people write them."
)


class GroupList(msgspec.Struct, frozen=True):
    """The groups of a topic."""

    groups: list["OwnedGroup"]


class OwnedGroup(GroupInfo, frozen=True, kw_only=True):
    """A group and its consumers."""

    pipeline: str | None  # The name of the pipeline that reads as this group; it has no members then.


class Seek(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to move a group: "earliest", "latest", an offset, or a time in RFC 3339."""

    to: str | int
    partition: int | None = None


async def list_groups(call: HttpCall) -> GroupList:
    """List the groups of a topic that you may see, with lag and verdict."""
    found: list[OwnedGroup] = []
    await call.run(call.shared.reports.refresh())
    topic = await call.run(call.operations.describe_topic(call.topic))
    for name in topic.groups:
        try:
            info = await call.run(call.operations.describe_group(call.topic, name))
            found.append(_owned(call, info))
        except (Forbidden, GroupNotFound):  # None of theirs, or gone meanwhile.
            continue
    return GroupList(found)


async def describe_group(call: HttpCall) -> OwnedGroup:
    """Describe a group: lag in messages and seconds, the oldest unacked message, and a verdict."""
    info = await call.run(call.operations.describe_group(call.topic, call.group))
    await call.run(call.shared.reports.refresh())
    return _owned(call, info)


def _owned(call: HttpCall, info: GroupInfo) -> OwnedGroup:
    reports = call.shared.reports
    return OwnedGroup(**msgspec.structs.asdict(reports.judged(info)), pipeline=reports.owner(info))


async def set_group(call: HttpCall) -> OwnedGroup:
    """Create a group, or change some of its settings."""
    options = cast("config.GroupOptions", given(call.body))
    await call.run(call.operations.create_group(call.topic, call.group, options))
    return await describe_group(call)


async def delete_group(call: HttpCall) -> None:
    """Delete a group and its position; its consumers are closed."""
    await call.run(call.operations.delete_group(call.topic, call.group))


async def seek_group(call: HttpCall) -> OwnedGroup:
    """Move a group to the beginning, the end, an offset or a time; its leases are released."""
    wanted: Seek = call.body
    await call.run(call.operations.seek(call.topic, call.group, wanted.to, wanted.partition))
    return await describe_group(call)
