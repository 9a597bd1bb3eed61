"""The first admin key of nodes that start at the same time."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.errors import OutcomeUnknown
from penstock.frontends import serve
from penstock.frontends.serve import Server


def starting(*, other_was_quicker: bool) -> Any:
    """A node whose key could not be written, because the document of keys had changed meanwhile."""
    access = SimpleNamespace(has_admin=False)

    async def create_key(*_: object) -> None:
        access.has_admin = other_was_quicker
        raise OutcomeUnknown(operation="the change of access.json", server="the cluster")

    operations = SimpleNamespace(access=access)
    broker = SimpleNamespace(operations=operations, create_key=create_key)
    return SimpleNamespace(gateway=SimpleNamespace(required=True), broker=broker, first_key=None)


async def test_a_node_starts_if_another_one_has_made_the_first_key_meanwhile() -> None:
    node = starting(other_was_quicker=True)

    await Server._make_first_key(cast("Server", node))

    assert node.first_key is None


async def test_a_node_does_not_start_without_any_admin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "FIRST_KEY_LOOK_S", 0.0)

    with pytest.raises(OutcomeUnknown):
        await Server._make_first_key(cast("Server", starting(other_was_quicker=False)))
