"""Settings that operators have set for Kafka groups.

    data/groups.json     by group, if it has any

A Kafka group may have settings before it has members or topics, so they are separate from the settings of
a topic's group.  Settings about members apply to members that join later.  Settings about messages are
copied to the queue groups of that name: at once to those that exist, and to others when Kafka clients
create them.  A change made to one queue group with Penstock's own API affects only that group; ``counting``
returns the settings in effect.
"""

from collections import deque
from typing import Final

import msgspec

from penstock.broker.registry.registry import GROUPS
from penstock.broker.state import State, Topic
from penstock.broker.steps import Steps
from penstock.broker.storage.checked_json import decode_checked, encode_checked
from penstock.broker.stream.commits import check_group_id
from penstock.broker.topic.groups import Groups
from penstock.broker.turns import Turn
from penstock.config.broker import READ_COMMITTED, READ_UNCOMMITTED, GroupOptions, Isolation
from penstock.errors import DirectoryUnusable, InvalidValue, Overloaded
from penstock.groups.configs import SHARE_LOCKS, GroupConfig, GroupRules, with_usual

GROUPS_MAX: Final = 10_000  # They are in one file, which is rewritten at each change.
NOTHING: Final = GroupConfig()


class GroupConfigBook(msgspec.Struct, frozen=True, kw_only=True):
    groups: dict[str, GroupConfig] = {}


class GroupConfigs:
    """The settings of all Kafka groups that have any."""

    def __init__(self, state: State, groups: Groups) -> None:
        self._state = state
        self._groups = groups
        self._changes: deque[Turn] = deque()  # One at a time.
        self._error: DirectoryUnusable | None = None  # The file is damaged.

    def open(self) -> None:
        data = self._state.registry.read(GROUPS)
        if data is None:
            return
        try:
            self.load(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, InvalidValue) as error:
            why = f"groups.json is damaged ({error}); restore it from a copy, or delete it"
            self._error = DirectoryUnusable(directory=self._state.directory, why=why)
            message = f"{why}: until then Kafka groups have the usual settings"
            self._state.problems.report("groups.json", "file_damaged", message)

    def load(self, data: bytes) -> None:
        """Load the settings that are stored, perhaps by another node."""
        self._state.group_configs = decode_checked(data, GroupConfigBook).groups

    def said(self, name: str) -> GroupConfig:
        """The settings that operators have set for a group."""
        return self._state.group_configs.get(name, NOTHING)

    def counting(self, name: str) -> GroupRules:
        """The settings in effect for a group."""
        counts = with_usual(self.said(name), self._state.config.group)
        settings = [topic.groups[name].settings for topic in self._queued(name)]
        if not settings:
            return counts
        return msgspec.structs.replace(
            counts,
            share_lock_ms=min(each.visibility_timeout_ms for each in settings),
            share_attempts=min(each.max_attempts for each in settings),
            share_isolation=_strictest([each.isolation for each in settings]),
        )

    def locks_max(self, name: str) -> int:
        """How many messages of a partition share consumers of a group may hold together."""
        said = self.said(name).share_locks
        return SHARE_LOCKS if said is None else said

    def names(self) -> list[str]:
        """The groups that have settings of their own."""
        return sorted(self._state.group_configs)

    def alter(self, name: str, said: GroupConfig) -> Steps[None]:
        """Replace the settings of a group."""
        check_group_id(name)
        with Turn(self._state, [self._changes]) as turn:
            yield from turn.wait()
            self._refresh()
            before = self.said(name)
            others = {one: config for one, config in self._state.group_configs.items() if one != name}
            if len(others) >= GROUPS_MAX:
                raise Overloaded(what="groups with settings", limit=GROUPS_MAX)
            yield from self._save(others if said == NOTHING else others | {name: said})
        options = self._options(before, said)
        for topic in self._queued(name) if options else ():
            yield from self._groups.ensure(topic, name, options)

    def _options(self, before: GroupConfig, said: GroupConfig) -> GroupOptions:
        """The options of existing queue groups that change."""
        counts = with_usual(said, self._state.config.group)
        options: GroupOptions = {}
        if said.share_lock_ms != before.share_lock_ms:
            options["visibility_timeout"] = f"{counts.share_lock_ms}ms"
        if said.share_attempts != before.share_attempts:
            options["max_attempts"] = counts.share_attempts
        if said.share_isolation != before.share_isolation:
            options["isolation"] = counts.share_isolation
        return options

    def _queued(self, name: str) -> list[Topic]:
        return [
            topic
            for topic in self._state.topics.values()
            if name in topic.groups and topic.groups[name].settings.kind == "queue"
        ]

    def _save(self, groups: dict[str, GroupConfig]) -> Steps[None]:
        if self._error is not None:
            raise self._error
        yield from self._state.registry.write(GROUPS, encode_checked(GroupConfigBook(groups=groups)))
        self._state.group_configs = groups  # Only now that it is stored.
        self._refresh()  # A later change of another node may have arrived in the meantime.

    def _refresh(self) -> None:
        """In a cluster, load the settings from the metadata: a change may not have been applied here yet."""
        if self._state.registry.group_epoch(""):
            data = self._state.registry.read(GROUPS)
            if data is not None:
                self.load(data)


def _strictest(levels: list[Isolation]) -> Isolation:
    return READ_COMMITTED if READ_COMMITTED in levels else READ_UNCOMMITTED
