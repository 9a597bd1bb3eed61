"""Dead letters: look at what failed, mend the cause, send it back.

A message that used up its attempts (or was rejected) is put into ``<topic>.dlq`` as it was, with headers
that say why. It goes back only to the group it failed in: the others have had it.

Prints:

    dead: orders:0:1, attempts 2, KeyError: 'price'
    dead: orders:0:2, attempts 1, no such customer
    would go back: 1
    went back: 1
    billing gets b'{"customer": 2}', redriven from orders:0:1
    still dead: ['orders:0:2']
"""

import contextlib
import json

import penstock


def bill(message: penstock.ReceivedMessage) -> None:
    order = json.loads(message.value)
    if order["customer"] > 2:
        message.reject("no such customer")  # No retry would help.
    else:
        order["price"]  # Missing: a KeyError, and so a nack.


def main() -> None:
    with penstock.open() as broker:
        broker.create_topic("orders")
        for order in ({"customer": 1, "price": 10}, {"customer": 2}, {"customer": 3}):
            broker.publish("orders", json.dumps(order).encode())

        with broker.consumer("orders", group="billing", max_attempts=2, backoff=["10ms"]) as consumer:
            while messages := consumer.receive(wait="100ms"):
                for message in messages:
                    with contextlib.suppress(KeyError), message:
                        bill(message)

            for letter in sorted(broker.dead_letters("orders"), key=lambda letter: letter.source):
                print(f"dead: {letter.source}, attempts {letter.attempts}, {letter.error}")

            print("would go back:", broker.redrive("orders", error="KeyError", dry_run=True).matched)
            print("went back:", broker.redrive("orders", error="KeyError").redriven)
            for message in consumer.receive(wait="1s"):
                print(f"billing gets {message.value!r}, redriven from {message.headers['x-redriven-from']}")
                message.ack()
        print("still dead:", [letter.source for letter in broker.dead_letters("orders")])


if __name__ == "__main__":
    main()
