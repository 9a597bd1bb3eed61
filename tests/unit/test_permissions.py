"""Grants and ACLs: who may do what, compared with Kafka's rules written down plainly."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.access.access import MARK, Access, AccessBook, StoredUser
from penstock.broker.storage.checked_json import encode_checked
from penstock.errors import InvalidValue
from penstock.model.access import (
    OPERATIONS,
    THE_CLUSTER,
    Acl,
    Grant,
    Operation,
    Permissions,
    Resource,
    acls_of,
)
from penstock.testing import TestBroker

ME = "User:anna"
NAMES = ["orders", "or", "bills"]

RESOURCES: list[Resource] = ["topic", "group"]
ACLS = st.sampled_from(RESOURCES).flatmap(
    lambda resource: st.builds(
        Acl,
        st.just(ME),
        st.just(resource),
        st.sampled_from(NAMES),
        st.booleans(),
        st.sampled_from(sorted(OPERATIONS[resource])),
        st.booleans(),
    )
)


def kafka_allows(acls: list[Acl], resource: Resource, name: str, operation: Operation) -> bool:
    """As Kafka's documentation puts it: deny wins, and reading implies describing."""
    implied: dict[str, set[str]] = {
        "describe": {"read", "write", "delete", "alter"},
        "describe_configs": {"alter_configs"},
    }
    there = [
        acl
        for acl in acls
        if acl.resource == resource
        and (name.startswith(acl.name) if acl.prefixed else acl.name in (name, "*"))
    ]
    if any(not acl.allow and acl.operation in (operation, "all") for acl in there):
        return False
    enough = {operation, "all"} | implied.get(operation, set())
    return any(acl.allow and acl.operation in enough for acl in there)


@given(st.lists(ACLS, unique=True, max_size=8))
def test_acls_decide_as_kafka_does(acls: list[Acl]) -> None:
    permissions = Permissions((), acls)

    for topic in ("orders", "bills", "order", "other"):
        for action, operation in (("read", "read"), ("publish", "write"), ("describe", "describe")):
            wanted: Any = (action, topic)
            assert permissions.allows(*wanted) == kafka_allows(acls, "topic", topic, operation)  # type: ignore[arg-type]
        assert permissions.allows("admin", topic, None, "delete") == kafka_allows(
            acls, "topic", topic, "delete"
        )
        for group in ("orders", "other"):
            assert permissions.allows("consume", topic, group) == (
                kafka_allows(acls, "topic", topic, "read") and kafka_allows(acls, "group", group, "read")
            )
    assert not permissions.allows("admin", None)


@given(st.lists(ACLS, unique=True, max_size=8))
def test_what_is_denied_is_denied_whatever_is_granted(acls: list[Acl]) -> None:
    grants = [Grant(role="producer"), Grant(role="consumer")]
    denied = [acl for acl in acls if not acl.allow]

    for topic in ("orders", "bills", "other"):
        is_denied = any(acl.names("topic", topic) and acl.operation in ("write", "all") for acl in denied)
        assert Permissions(grants, acls).allows("publish", topic) is not is_denied
        assert Permissions([Grant(role="admin")], acls).allows("publish", topic)  # A super user.


def test_without_acls_a_grant_decides_alone() -> None:
    permissions = Permissions([Grant(role="consumer", topics=["orders"], groups=["billing"])])

    assert permissions.allows("consume", "orders", "billing")
    assert not permissions.allows("consume", "orders", "audit")
    assert not permissions.allows("publish", "orders")


def test_what_is_about_nothing_in_particular_needs_some_permission_of_its_kind() -> None:
    reader = Permissions((), [Acl(ME, "topic", "orders", False, "read")])

    assert reader.allows("describe", None)
    assert reader.allows("read", None)
    assert not reader.allows("publish", None)
    assert not Permissions().allows("describe", None)
    idempotent = Permissions((), [Acl(ME, "cluster", THE_CLUSTER, False, "idempotent_write")])
    assert idempotent.allows("publish", None)


def test_creating_a_topic_is_an_operation_on_it_or_on_the_cluster() -> None:
    for acl in (
        Acl(ME, "topic", "or", True, "create"),
        Acl(ME, "cluster", THE_CLUSTER, False, "create"),
    ):
        assert Permissions((), [acl]).allows("admin", "orders", None, "create")
        assert not Permissions((), [acl]).allows("admin", "orders", None, "delete")
    on_cluster = Acl(ME, "cluster", THE_CLUSTER, False, "create")
    denied = [on_cluster, msgspec.structs.replace(on_cluster, allow=False)]
    assert not Permissions((), denied).allows("admin", "orders", None, "create")


def test_roles_are_shown_as_acls() -> None:
    grants = [
        Grant(role="consumer", topics=["orders"], groups=["billing*"]),
        Grant(role="producer", topics=["bills"], groups=["g"]),
        Grant(role="admin"),
    ]

    assert acls_of(ME, grants) == [
        Acl(ME, "topic", "orders", False, "read"),
        Acl(ME, "group", "billing", True, "read"),
        Acl(ME, "topic", "bills", False, "write"),
        Acl(ME, "group", "g", False, "describe"),
        Acl(ME, "topic", "*", False, "all"),
        Acl(ME, "group", "*", False, "all"),
        Acl(ME, "cluster", THE_CLUSTER, False, "all"),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        ("anna", "topic", "orders", False, "read"),
        ("Group:anna", "topic", "orders", False, "read"),
        ("User:", "topic", "orders", False, "read"),
        (ME, "group", "orders", False, "create"),
        (ME, "cluster", "orders", False, "alter"),
        (ME, "topic", "", False, "read"),
        (ME, "topic", "*", True, "read"),
        (ME, "topic", "n" * 250, False, "read"),
    ],
)
def test_what_cannot_be_an_acl_is_refused(fields: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidValue):
        Acl(*fields)


def test_every_resource_has_operations() -> None:
    assert set(OPERATIONS) == set(get_args(Resource))


@pytest.mark.parametrize("converted", [False, True], ids=["directory", "cluster made from one"])
def test_acls_that_an_earlier_version_kept_among_grants_become_acls(converted: bool) -> None:
    with TestBroker.open() as broker:
        broker.set_user("anna", "correct horse", [Grant(role="reader", topics=["logs"])])
        access = broker._local.access
        assert isinstance(access, Access)
        stored = access.user("anna")
        assert isinstance(stored, StoredUser)
        marked = [
            Grant(role="producer", topics=[MARK, "orders"], groups=[MARK]),
            Grant(role="consumer", topics=[MARK, "bills*"], groups=[MARK, "audit"]),
        ]
        info = msgspec.structs.replace(stored.info, grants=[*stored.info.grants, *marked])
        old = AccessBook(users={"anna": msgspec.structs.replace(stored, info=info)})
        if converted:
            access.load(encode_checked(old))
        else:
            access._state.files.write_file(f"{access._state.directory}/access.json", encode_checked(old))
            access.open()

        assert access.acls() == [
            Acl(ME, "topic", "orders", False, "write"),
            Acl(ME, "topic", "bills", True, "read"),
            Acl(ME, "group", "audit", False, "read"),
        ]
        [anna] = access.users()
        assert anna.grants == [Grant(role="reader", topics=["logs"])]
