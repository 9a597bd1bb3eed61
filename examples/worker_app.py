"""Workers: functions that work on messages, in processes of their own, or in a test.

Against a server: ``penstock serve`` in one terminal, ``penstock worker examples.worker_app:app`` in another,
and ``penstock produce orders "two books" --key anna`` in a third. Run as a program, this file shows the same
functions at work in virtual time, on a broker in memory.

Prints:

    order of anna: two books
    order of bert: the shop is closed, again in an hour
    order of carl: no such book, given up
    thanks to anna
    an hour later
    order of bert: a pen
    thanks to bert
    nine o'clock: 2 orders so far
"""

import penstock
import penstock.testing

app = penstock.App()  # $PENSTOCK_SERVER, or penstock://127.0.0.1:7070
shop: dict[str, int] = {"orders": 0}


@app.worker("orders", group="shop", concurrency=8, max_attempts=5, timeout="30s")
async def take_order(message: penstock.AsyncWorkerMessage) -> None:
    customer = (message.key or b"").decode()
    if message.value == b"a book that does not exist":
        print(f"order of {customer}: no such book, given up")
        raise penstock.Reject("no such book")
    if message.value == b"a pen" and message.attempt == 1:
        print(f"order of {customer}: the shop is closed, again in an hour")
        raise penstock.Retry("the shop is closed", delay="1h")
    print(f"order of {customer}: {message.value.decode()}")
    shop["orders"] += 1
    await message.ack(publish=[("mails", penstock.Message(b"thanks", key=customer))])  # Both, or neither.


@app.worker("mails", group="mailer", concurrency=4)
def send_mail(message: penstock.Message) -> None:  # A plain function: it may block, it has its own thread.
    print(f"thanks to {message.key.decode()}")


@app.schedule("0 9 * * mon-fri", timezone="Europe/Berlin")
async def report() -> None:
    print(f"nine o'clock: {shop['orders']} orders so far")


def main() -> None:
    with penstock.testing.open() as broker:  # Its clock starts on Thursday, 2026-01-01, at midnight UTC.
        app.drain(broker)  # Nothing to do yet; but topics, groups and the schedule are there now.
        broker.publish("orders", b"two books", key="anna")
        broker.publish("orders", b"a pen", key="bert")
        broker.publish("orders", b"a book that does not exist", key="carl")
        app.drain(broker)

        print("an hour later")
        broker.advance("1h")
        app.drain(broker)

        broker.advance("8h")
        app.drain(broker)


if __name__ == "__main__":
    main()
