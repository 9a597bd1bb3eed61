"""Consumers behind receive requests: one for each client, queue and visibility timeout, as over HTTP.

Each message has a separate lease, so that its visibility timeout can be changed alone.  When a consumer
holds as many messages as it may, another one is opened, up to the in-flight limit of the service.
"""

from typing import Final

from penstock.frontends.http.consumers.registry import HttpConsumer, HttpConsumers, Key
from penstock.frontends.security.guarded import BrokerOperations
from penstock.frontends.sqs.errors import SqsError

IN_FLIGHT_MAX: Final = 120_000  # Of a queue.
FULL: Final = 9_000  # Of one consumer; the broker's own limit is a little higher.


class SqsConsumers(HttpConsumers):
    kind = "sqs"
    what = "consumers of SQS queues"

    async def find(
        self, operations: BrokerOperations, topic: str, group: str, visibility_ms: int | None
    ) -> HttpConsumer:
        known = self._by_key.get((operations, topic, group, visibility_ms))
        if known is not None and known.inner.in_flight >= FULL:
            held = sum(each.inner.in_flight for each in self._by_number.values() if each.key[1] == topic)
            if held >= IN_FLIGHT_MAX:
                raise SqsError(
                    "OverLimit", f"Too many messages in flight: the limit is {IN_FLIGHT_MAX}.", 403
                )
            del self._by_key[known.key]
        return await super().find(operations, topic, group, visibility_ms)

    async def _make(self, key: Key, in_flight_max: int | None = None) -> HttpConsumer:
        made = await super()._make(key, in_flight_max)
        made.inner.want_single_leases()
        return made
