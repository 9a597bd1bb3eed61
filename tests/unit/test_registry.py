"""The registry: what the broker asks of it, with one that agrees slowly, as that of a cluster does."""

import pytest
from tests.movable import Held, core_of, reopen

from penstock.broker.core import Core
from penstock.broker.registry.registry import ACCESS, GROUPS, first_generation
from penstock.broker.steps import GiveWay, Steps
from penstock.broker.topic.local_registry import LocalRegistry
from penstock.config.broker import TopicSettings
from penstock.errors import NotOwner, StoreUnavailable
from penstock.groups.configs import GroupConfig
from penstock.model.access import Grant, Quota
from penstock.testing import TestBroker
from penstock.testing.files import CrashDisk

GRANTS = [Grant(role="reader", topics=["*"])]


class SlowRegistry(LocalRegistry):
    """Lets others have turns before each change, owns no partition, and can be made to refuse."""

    def __init__(self, core: Core) -> None:
        super().__init__(core.state, core.catalogue, core.topics, core.groups)
        self.refusal: StoreUnavailable | None = None
        self.epochs: dict[str, int] = {}

    def owner(self, topic: str, number: int) -> tuple[int, int] | None:
        return 3, 17

    def create_topic(self, name: str, settings: TopicSettings, *, limited: bool) -> Steps[None]:
        yield from self._agree()
        yield from self._topics.make(name, settings, b"0123456789abcdef", limited=limited)

    def write(self, name: str, data: bytes) -> Steps[None]:
        yield from self._agree()
        yield from super().write(name, data)

    def group_epoch(self, group: str) -> int:
        return self.epochs.get(group, 0)

    def _agree(self) -> Steps[None]:
        for _ in range(3):
            yield GiveWay()
        if self.refusal is not None:
            raise self.refusal


@pytest.fixture
def broker() -> TestBroker:
    return TestBroker.open("data", files=CrashDisk())


@pytest.fixture
def registry(broker: TestBroker) -> SlowRegistry:
    made = SlowRegistry(core_of(broker))
    core_of(broker).state.registry = made
    return made


def finish(*operations: Held) -> None:
    while not all(operation.ended for operation in operations):
        for operation in operations:
            if not operation.ended:
                operation.advance()


@pytest.mark.usefixtures("registry")
def test_a_new_topic_has_the_agreed_id_and_its_partitions_where_they_were_given(broker: TestBroker) -> None:
    broker.create_topic("orders", partitions=2)

    topic = core_of(broker).state.topics["orders"]
    assert topic.id == b"0123456789abcdef"
    with pytest.raises(NotOwner) as refused:
        broker.publish("orders", b"a")
    assert (refused.value.owner, refused.value.epoch) == (3, 17)

    reopen(broker, "orders", 1, epoch=18)
    assert broker.publish("orders", b"a").partition == 1


@pytest.mark.usefixtures("registry")
def test_new_partitions_of_a_topic_that_grows_are_elsewhere(broker: TestBroker) -> None:
    broker.create_topic("orders")
    reopen(broker, "orders", 0)
    broker.create_group("orders", "workers")

    broker.alter_topic("orders", partitions=3)

    assert [partition.number for partition in core_of(broker).state.topics["orders"].partitions] == [0]
    assert len(core_of(broker).state.topics["orders"].partitions) == 3


def test_a_directory_is_opened_without_the_partitions_of_others() -> None:
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    broker.create_topic("orders", partitions=2)
    broker.publish("orders", b"a", partition=0)
    broker.close()

    again = TestBroker.open("data", files=disk)
    again.close()
    core = Core(
        directory="data", files=disk, clock=core_of(again).state.clock, config=core_of(again).state.config,
        random=core_of(again).state.random,
    )  # fmt: skip
    core.state.registry = SlowRegistry(core)
    for _ in core.open():
        pass

    assert core.state.topics["orders"].partitions.absent() == {0, 1}


def test_changes_of_keys_and_users_that_cross_each_other_are_all_kept(
    broker: TestBroker, registry: SlowRegistry
) -> None:
    access = core_of(broker).access
    broker.set_user("anna", "correct horse", GRANTS)
    broker.set_user("bert", "correct horse", GRANTS)
    first = Held(access.delete_user("anna"))
    second = Held(access.alter_user("bert", [], access.users()[1].quota))

    finish(first, second)

    assert [(user.name, user.grants) for user in access.users()] == [("bert", [])]
    data = registry.read(ACCESS)
    assert data is not None
    access.load(data)
    assert [user.name for user in access.users()] == ["bert"]


def test_what_the_registry_refuses_did_not_happen(broker: TestBroker, registry: SlowRegistry) -> None:
    registry.refusal = StoreUnavailable(store="s3://b", why="timeout")
    core = core_of(broker)

    with pytest.raises(StoreUnavailable):
        broker.create_key("k", GRANTS)
    with pytest.raises(StoreUnavailable):
        broker.create_topic("orders")
    with pytest.raises(StoreUnavailable):
        broker._driver.run(core.group_configs.alter("g", GroupConfig(share_locks=500)))

    assert (broker.keys(), broker.topics(), core.group_configs.names()) == ([], [], [])


def test_connections_of_users_that_another_node_has_changed_are_closed(broker: TestBroker) -> None:
    access = core_of(broker).access
    broker.set_user("anna", "correct horse", GRANTS)
    data = core_of(broker).state.registry.read(ACCESS)
    assert data is not None
    broker.set_user("anna", "another horse", GRANTS)
    changed: list[tuple[str, str]] = []
    access.changed = lambda kind, name: changed.append((kind, name))

    access.load(data)
    access.load(data)

    assert changed == [("user", "anna")]


def test_generations_begin_beyond_those_of_the_epoch_before(
    broker: TestBroker, registry: SlowRegistry
) -> None:
    coordination = core_of(broker).coordination
    registry.epochs = {"g": 7}

    assert coordination._generation_before("g") == 7 << 20
    assert coordination._generation_before("other") == 0
    assert first_generation(2048 + 7) == 7 << 20, "a generation has 31 bits"


def test_a_change_of_keys_keeps_one_of_another_node_that_is_not_carried_out_here_yet(
    broker: TestBroker, registry: SlowRegistry
) -> None:
    """A revoked key was valid again."""
    registry.epochs[""] = 1
    access = core_of(broker).access
    revoked = broker.create_key("revoked", grants=GRANTS)
    before = registry.read(ACCESS)
    assert before is not None
    broker.revoke_key(revoked.id)
    access.load(before)  # As it is here when the other node has revoked it.

    broker.create_key("other", grants=GRANTS)

    known = access.keys()
    assert [key.name for key in known] == ["other"]


def test_a_change_of_a_user_keeps_one_of_another_node_that_is_not_carried_out_here_yet(
    broker: TestBroker, registry: SlowRegistry
) -> None:
    """The old password was valid again."""
    registry.epochs[""] = 1
    access = core_of(broker).access
    broker.set_user("ann", "the old password", grants=GRANTS)
    before = registry.read(ACCESS)
    assert before is not None
    broker.set_user("ann", "the new password", grants=GRANTS)
    access.load(before)

    broker._driver.run(access.alter_user("ann", [], Quota()))

    stored = access.user("ann")
    assert stored is not None
    assert stored.fits("the new password")
    assert stored.info.grants == []


def test_a_change_of_keys_does_not_hide_a_later_one_of_another_node(
    broker: TestBroker, registry: SlowRegistry
) -> None:
    registry.epochs[""] = 1
    access = core_of(broker).access
    broker.create_key("first", grants=GRANTS)
    later = registry.read(ACCESS)
    assert later is not None
    write = registry.write

    def overtaken(name: str, data: bytes) -> Steps[None]:
        yield from write(name, data)
        yield from write(name, later)
        access.load(later)

    registry.write = overtaken  # type: ignore[method-assign]
    broker.create_key("second", grants=GRANTS)

    known = access.keys()
    assert [key.name for key in known] == ["first"]


def test_a_change_of_group_settings_keeps_one_of_another_node_that_is_not_carried_out_here_yet(
    broker: TestBroker, registry: SlowRegistry
) -> None:
    registry.epochs[""] = 1
    configs = core_of(broker).group_configs

    def alter(group: str, lock_ms: int) -> None:
        broker._driver.run(broker._local.alter_group_config(group, GroupConfig(share_lock_ms=lock_ms)))

    alter("billing", 5000)
    before = registry.read(GROUPS)
    assert before is not None
    alter("billing", 6000)
    configs.load(before)

    alter("mail", 7000)

    assert configs.said("billing").share_lock_ms == 6000
