"""A broker in virtual time behind a Kafka port, for tests of code that uses Kafka.

    with KafkaServer() as kafka:                                # in pytest: the fixture `penstock_kafka`
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.address})
        ...
        kafka.advance("1h")                                     # leases time out, delays are over
        kafka.run(kafka.broker.dead_letters("orders"))          # an AsyncTestBroker, on the server's loop

It is the real listener; ``served.py`` says how it lives with a clock that stands.  Time that a test lets
pass also passes for the members of groups: one that was silent for so long rejoins automatically, and goes on
from what was committed.
"""

from penstock.config.server import KafkaSettings, LimitSettings
from penstock.frontends.kafka.server import KafkaListener
from penstock.frontends.listener import Connections
from penstock.testing.served import ServedBroker


class KafkaServer(ServedBroker):
    """Give its ``address`` to a Kafka client as ``bootstrap.servers``."""

    name = "penstock-kafka"

    def listener(self) -> KafkaListener:
        limits = LimitSettings()
        return KafkaListener(
            self.broker,
            limits,
            Connections(limits.connections_max),
            settings=KafkaSettings(initial_rebalance_delay_ms=0),  # The clock stands.
            clock=self.broker.clock,
        )
