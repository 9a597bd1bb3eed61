"""How a consumer is opened, besides its topic and group: an argument of several operations.

Topic and group stay arguments of their own, because permissions refer to them by name.
"""

from typing import cast

import msgspec

from penstock.config.broker import GroupOptions
from penstock.wire.native_bodies import OpenConsumer


class ConsumerOptions(msgspec.Struct, frozen=True, kw_only=True):
    consumer_id: str | None = None  # None: the broker makes one.
    max_in_flight: int | None = None  # Unsettled messages; None: the limit of the group.
    group: GroupOptions = {}  # Settings of a group that does not exist yet, or to change.


def consumer_options(request: OpenConsumer) -> ConsumerOptions:
    """The options in a request of a client or another node; the broker checks them."""
    return ConsumerOptions(
        consumer_id=request.consumer_id,
        max_in_flight=request.max_in_flight,
        group=cast("GroupOptions", request.options),
    )
