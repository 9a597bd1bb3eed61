"""A worker that bills each order in a transaction, until it is killed: ``python -m ... URL``."""

import sys

import penstock
from penstock.errors import PenstockError


def work(url: str) -> None:
    """One order after the other; what fails is delivered again."""
    while True:
        try:
            with penstock.connect(url) as broker, broker.consumer("orders", group="billing") as consumer:
                sys.stdout.write("ready\n")
                sys.stdout.flush()
                while True:
                    for message in consumer.receive(5, wait="1s"):
                        with broker.transaction(timeout="2s") as transaction:
                            transaction.publish("bills", message.value, partition=0)
                            transaction.publish("bills", message.value, partition=1)
                            transaction.publish("audit", message.value)
                            transaction.ack(message)
        except PenstockError as error:
            sys.stderr.write(f"{error}\n")


if __name__ == "__main__":
    work(sys.argv[1])
