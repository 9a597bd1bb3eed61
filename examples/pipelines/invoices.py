"""A worker, and a rehearsal of it: what would this version have done with last week's orders?

penstock worker examples.pipelines.invoices:app
penstock pipeline run rehearse --set handler=examples.pipelines.invoices:invoice --set from_time=7d
"""

import json

import penstock

app = penstock.App()


@app.worker("invoiced-orders", group="invoices", max_attempts=1)
def invoice(message: penstock.WorkerMessage) -> None:
    """Bill an order; the bill goes out if and only if the order is acked."""
    order = json.loads(message.value)
    if order["amount"] < 0:
        raise penstock.Reject("nobody pays a negative amount")
    bill = f"{order['customer']} owes {order['amount']:.2f}".encode()
    message.ack(publish=[("bills", penstock.Message(bill, key=message.key))])
