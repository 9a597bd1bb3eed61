"""RE2 and Python's re agree on what both accept, where re does not run away: short patterns, short names."""

import re

from hypothesis import given
from hypothesis import strategies as st

from penstock.groups.patterns import compiled

LITERALS = st.sampled_from(["a", "b", "c", "-", r"\.", ".", r"\w", r"\d", r"\W", "[ab]", "[^a-b]", "[a-c.-]"])
REPEATS = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,3}", "{1,}"])
NAMES = st.text(alphabet="abc-._1", max_size=6)


def larger(patterns: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(patterns, patterns).map("".join),
        st.tuples(patterns, patterns).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(patterns, REPEATS).map(lambda two: f"(?:{two[0]}){two[1]}"),
        patterns.map(lambda one: f"^{one}"),
        patterns.map(lambda one: f"{one}$"),
    )


@given(st.recursive(LITERALS, larger, max_leaves=5), st.lists(NAMES, max_size=20))
def test_a_pattern_matches_what_pythons_own_would(pattern: str, names: list[str]) -> None:
    ours, theirs = compiled(pattern), re.compile(pattern, re.ASCII)

    for name in names:
        assert ours(name) == (theirs.fullmatch(name) is not None), name
