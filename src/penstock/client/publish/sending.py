"""Sends a PUBLISH through the node that a session is connected to, perhaps after a try at an owner."""

from penstock.client.publish.requests import PublishRequest
from penstock.client.session import ClientSession
from penstock.errors import NotOwner, ServerUnreachable
from penstock.wire.native import REFUSED, PublishOutcome, decode_published
from penstock.wire.native_bodies import decode_error


async def send_through(
    session: ClientSession,
    operation: str,
    request: PublishRequest,
    deadline: float,
    *,
    wait_ms: int,
    failed: Exception | None,
    repeat: bool = True,
) -> bytes:
    """The answer to a request through any node; ``failed``: what became of a try at an owner.

    If an earlier try has perhaps written what no owner can be asked about now, the same bytes are sent
    again until one can: it knows whether it has them.
    """
    pauses = 0
    while True:
        body = await session.call(
            operation, request.encode, repeat=repeat, wait_ms=wait_ms, deadline=deadline, failed=failed
        )
        if request.tries == 1 or not repeat or not _has_no_owner(decode_published(body)[0]):
            return body
        failed = None
        pauses += 1
        await session.pause(pauses, deadline)


def _has_no_owner(outcomes: list[PublishOutcome]) -> bool:
    """Whether the owner of a partition could not be asked."""
    for each in outcomes:
        if each.state == REFUSED and isinstance(decode_error(each.error), (NotOwner, ServerUnreachable)):
            return True
    return False
