"""Operating a cluster: its state, and where partitions are; for admins."""

import msgspec

from penstock.errors import InvalidValue
from penstock.frontends.http.call import HttpCall
from penstock.model.cluster import ClusterInfo, Moved


class DrainNode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Drain a node, or end that."""

    undo: bool = False


class MovePartition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which partition, and to which node."""

    topic: str
    partition: int
    node: int


class Balance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Even out, or only count the partitions that would move."""

    dry_run: bool = False


async def cluster_info(call: HttpCall) -> ClusterInfo:
    """Nodes, owners and takeovers of the cluster."""
    return await call.run(call.operations.cluster_info())


async def drain_node(call: HttpCall) -> Moved:
    """Move all partitions away from a node and keep others away, or let it have some again."""
    return await call.run(call.operations.drain_node(_node(call), call.body.undo))


async def remove_node(call: HttpCall) -> None:
    """Forget a node that has stopped for good."""
    await call.run(call.operations.remove_node(_node(call)))


async def move_partition(call: HttpCall) -> Moved:
    """Move a partition to a node, where it stays while that is up and not drained."""
    body: MovePartition = call.body
    return await call.run(call.operations.move_partition(body.topic, body.partition, body.node))


async def balance_partitions(call: HttpCall) -> Moved:
    """Move partitions so that each node owns about as many."""
    return await call.run(call.operations.balance_partitions(call.body.dry_run))


def _node(call: HttpCall) -> int:
    text = call.path["node"]
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise InvalidValue(name="node", value=text, why="it must be the number of a node")
    return int(text)
