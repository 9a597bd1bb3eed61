"""ACLs and grants: what one gives, the other shows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.access import Grant
from penstock.errors import InvalidValue
from penstock.frontends.kafka.acl_grants import (
    ALL,
    CLUSTER,
    DESCRIBE,
    GROUP,
    LITERAL,
    MADE,
    PREFIXED,
    READ,
    THE_CLUSTER,
    TOPIC,
    WRITE,
    Acl,
    acls_of,
    check,
    grants_with,
    is_implied,
)

ACLS = st.builds(
    lambda what, name, pattern: Acl(what[0], name, pattern, what[1]),
    st.sampled_from(sorted(MADE)),
    st.sampled_from(["orders", "bills", "or"]),
    st.sampled_from([LITERAL, PREFIXED]),
)


def test_roles_are_told_as_acls() -> None:
    grants = [
        Grant(role="consumer", topics=["orders"], groups=["billing*"]),
        Grant(role="producer", topics=["bills"], groups=["g"]),
    ]

    assert acls_of(grants) == [
        Acl(TOPIC, "orders", LITERAL, READ),
        Acl(GROUP, "billing", PREFIXED, READ),
        Acl(TOPIC, "bills", LITERAL, WRITE),
        Acl(GROUP, "g", LITERAL, DESCRIBE),
    ]


def test_an_admin_of_all_topics_has_the_cluster() -> None:
    assert Acl(CLUSTER, THE_CLUSTER, LITERAL, ALL) in acls_of([Grant(role="admin")])
    assert Acl(CLUSTER, THE_CLUSTER, LITERAL, ALL) not in acls_of([Grant(role="admin", topics=["orders"])])


@given(st.lists(ACLS, unique=True))
def test_acls_become_grants_and_are_found_in_them_again(acls: list[Acl]) -> None:
    """Except those that another one has in it."""
    told = acls_of(grants_with([], acls))

    covered = {acl for acl in acls if acl.operation != ALL and acl._replace(operation=ALL) in acls}
    assert set(told) == set(acls) - covered


@given(st.lists(ACLS, unique=True))
def test_a_user_with_acls_may_do_what_kafka_would_let_it(acls: list[Acl]) -> None:
    grants = grants_with([], acls)

    def may(kind: int, name: str, operation: int) -> bool:
        return any(
            acl.kind == kind
            and acl.operation in (operation, ALL)
            and (name == acl.name if acl.pattern == LITERAL else name.startswith(acl.name))
            for acl in acls
        )

    for topic in ("orders", "bills", "order", "other"):
        assert any(each.allows("publish", topic) for each in grants) == may(TOPIC, topic, WRITE)
        assert any(each.allows("read", topic) for each in grants) == may(TOPIC, topic, READ)
        assert any(each.allows("admin", topic) for each in grants) == may(TOPIC, topic, ALL)
        for group in ("orders", "other"):
            wanted = may(TOPIC, topic, READ) and may(GROUP, group, READ)
            assert any(each.allows("consume", topic, group) for each in grants) == wanted
    assert not any(each.allows("admin", None) for each in grants)


def test_grants_that_were_given_otherwise_stay() -> None:
    before = [Grant(role="reader", topics=["logs"])]
    made = grants_with(before, [Acl(TOPIC, "orders", LITERAL, WRITE)])

    assert made[:1] == before
    assert grants_with(made, []) == before


def test_looking_is_a_part_of_more() -> None:
    read = Acl(TOPIC, "orders", LITERAL, READ)

    assert is_implied(read._replace(operation=DESCRIBE), [read])
    assert not is_implied(read._replace(operation=DESCRIBE, name="bills"), [read])
    assert not is_implied(read, [read])


@pytest.mark.parametrize(
    "acl",
    [
        Acl(TOPIC, "orders", LITERAL, DESCRIBE),
        Acl(CLUSTER, THE_CLUSTER, LITERAL, ALL),
        Acl(TOPIC, "orders", 1, READ),
        Acl(TOPIC, "", PREFIXED, READ),
        Acl(TOPIC, "*", PREFIXED, READ),
        Acl(TOPIC, "orders*", LITERAL, READ),
        Acl(TOPIC, "a b", LITERAL, READ),
        Acl(TOPIC, "__acl", LITERAL, READ),
    ],
)
def test_what_no_grant_can_be_is_refused(acl: Acl) -> None:
    with pytest.raises(InvalidValue):
        check(acl)
