"""A broker in virtual time behind an SQS port, for tests of code that uses SQS.

    with SqsServer() as sqs:                                    # in pytest: the fixture `penstock_sqs`
        client = boto3.client("sqs", endpoint_url=sqs.url, region_name="us-east-1",
                              aws_access_key_id="test", aws_secret_access_key="test")
        ...
        sqs.advance("30s")                                      # visibility timeouts and delays are over
        sqs.run(sqs.broker.describe_group("orders", "sqs"))     # an AsyncTestBroker, on the server's loop

It is the real listener; ``served.py`` says how it lives with a clock that stands.  A long poll is answered
after a moment with what there is, however long it may wait.
"""

from penstock.config.server import LimitSettings
from penstock.frontends.listener import Connections
from penstock.frontends.sqs.server import SqsListener
from penstock.testing.served import ServedBroker


class SqsServer(ServedBroker):
    """Give its ``url`` to an AWS SDK as ``endpoint_url``, with any region and credentials."""

    name = "penstock-sqs"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def listener(self) -> SqsListener:
        limits = LimitSettings()
        return SqsListener(self.broker, limits, Connections(limits.connections_max), clock=self.broker.clock)
