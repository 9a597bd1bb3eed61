"""Grants against the simplest thing that could be right: regular expressions, and a table."""

import re

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.access import ACTIONS, Action, Grant, Role

NAMES = st.text("ab.", min_size=1, max_size=4)
PATTERNS = st.one_of(NAMES, NAMES.map(lambda name: f"{name}*"), st.just("*"))
GRANTS = st.builds(
    Grant,
    role=st.sampled_from(sorted(ACTIONS)),
    topics=st.lists(PATTERNS, min_size=1, max_size=3),
    groups=st.lists(PATTERNS, min_size=1, max_size=3),
)
ALLOWED: set[tuple[Role, Action]] = {
    ("reader", "describe"), ("reader", "read"),
    ("producer", "describe"), ("producer", "publish"),
    ("consumer", "describe"), ("consumer", "read"), ("consumer", "consume"),
    ("admin", "describe"), ("admin", "read"), ("admin", "publish"), ("admin", "consume"), ("admin", "admin"),
}  # fmt: skip


def fits(patterns: object, name: str) -> bool:
    assert isinstance(patterns, tuple)
    return any(re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name) for pattern in patterns)


@given(grant=GRANTS, action=st.sampled_from(sorted(ACTIONS["admin"])), topic=NAMES, group=st.none() | NAMES)
def test_a_grant_allows_what_its_role_and_its_patterns_say(
    grant: Grant, action: Action, topic: str, group: str | None
) -> None:
    expected = (grant.role, action) in ALLOWED and fits(grant.topics, topic)
    expected = expected and (group is None or fits(grant.groups, group))

    assert grant.allows(action, topic, group) is expected


@given(grant=GRANTS, action=st.sampled_from(sorted(ACTIONS["admin"])))
def test_without_a_topic_the_role_is_enough_except_for_an_admin_of_some(grant: Grant, action: Action) -> None:
    expected = (grant.role, action) in ALLOWED and (action != "admin" or "*" in grant.topics)

    assert grant.allows(action, None) is expected
