"""A pipeline without gaps or repeats: ack the inputs and publish the outputs in one step.

The outputs are published if and only if the ack holds, whatever crashes when. So each step of a pipeline
inside one broker happens exactly once; a producer outside says a ``dedup_id`` to have the same.

Prints:

    published twice, stored once: True
    the broker is closed between ack and the next step
    invoices: [b'invoice for order 1', b'invoice for order 2']
    orders left: 0
"""

import penstock


def main() -> None:
    with penstock.open("data") as broker:
        broker.create_topic("orders")
        broker.create_topic("invoices")
        first = broker.publish("orders", b"order 1", dedup_id="order-1")
        again = broker.publish("orders", b"order 1", dedup_id="order-1")  # A caller that got no answer.
        broker.publish("orders", b"order 2", dedup_id="order-2")
        print("published twice, stored once:", again.duplicate and again.offset == first.offset)

        with broker.consumer("orders", group="billing") as consumer:
            while messages := consumer.receive(max_messages=10):
                invoices = [penstock.Message(b"invoice for " + message.value) for message in messages]
                consumer.ack(messages, publish=[("invoices", invoice) for invoice in invoices])
    print("the broker is closed between ack and the next step")

    with penstock.open("data") as broker:
        print("invoices:", [message.value for message in broker.read("invoices")])
        print("orders left:", broker.depth("orders", "billing"))


if __name__ == "__main__":
    main()
