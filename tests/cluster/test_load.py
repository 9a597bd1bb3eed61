"""The history checker finds what it is for."""

import pytest
from tests.cluster.load import Load
from tests.cluster.nodes import Nodes


@pytest.fixture
def load() -> Load:
    """Two writers; the first has written two messages, the second one, and another one was refused."""
    load = Load(Nodes.__new__(Nodes), [1], writers=2)
    load.acknowledged = {(0, 0): load._value(0, 0), (0, 1): load._value(0, 1), (1, 0): load._value(1, 0)}
    load.rejected = {load._value(1, 1)}
    load.unknown = {load._value(1, 2)}
    load.read = {(0, 0): load._value(0, 0)}
    return load


def test_what_is_as_it_was_answered_is_right(load: Load) -> None:
    load.compare(dict(load.acknowledged))
    load.compare(load.acknowledged | {(1, 1): load._value(1, 2)})  # Its outcome was unknown.


@pytest.mark.parametrize(
    ("place", "writer", "count"),
    [
        ((0, 1), 1, 2),  # Another message is where one was acknowledged.
        ((1, 1), 0, 1),  # A message is there twice.
        ((1, 1), 1, 1),  # A refused message is there.
        ((1, 1), 1, 7),  # A message that nobody was told about.
    ],
)
def test_a_log_that_differs_is_noticed(load: Load, place: tuple[int, int], writer: int, count: int) -> None:
    found = load.acknowledged | {place: load._value(writer, count)}

    with pytest.raises(AssertionError):
        load.compare(found)


def test_a_lost_message_is_noticed(load: Load) -> None:
    found = dict(load.acknowledged)
    del found[1, 0]

    with pytest.raises(AssertionError):
        load.compare(found)


def test_messages_out_of_order_are_noticed(load: Load) -> None:
    load.acknowledged[0, 0], load.acknowledged[0, 1] = load.acknowledged[0, 1], load.acknowledged[0, 0]
    load.read = {}

    with pytest.raises(AssertionError):
        load.compare(dict(load.acknowledged))


def test_a_read_that_is_not_in_the_log_is_noticed(load: Load) -> None:
    load.read[0, 2] = b"gone"

    with pytest.raises(AssertionError):
        load.compare(dict(load.acknowledged))
