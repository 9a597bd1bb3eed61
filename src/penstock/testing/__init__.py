"""PUBLIC: what tests of our users, and our own, need.

    open, TestBroker          the broker in memory and in virtual time
    AsyncTestBroker           the same for asyncio
    ManualClock               the clock they use
    KafkaServer               such a broker behind a Kafka port (penstock.testing.kafka)
    SqsServer                 such a broker behind an SQS port (penstock.testing.sqs)
    FaultyFiles, CrashDisk    disks that fail, for tests of the broker itself (penstock.testing.files)

The pytest plugin gives every test that asks for it a ``penstock`` fixture: an
open ``TestBroker``.  ``penstock_kafka`` is a ``KafkaServer``, ``penstock_sqs`` an ``SqsServer``.
"""

from penstock.testing.broker import AsyncTestBroker, TestBroker
from penstock.testing.clock import ManualClock

open = TestBroker.open  # noqa: A001 - penstock.testing.open() beside penstock.open().

__all__ = ["AsyncTestBroker", "ManualClock", "TestBroker", "open"]
