"""A queue: publish, work, acknowledge; what fails comes again.

The work is done inside ``with message``: the end of the block acks, an error nacks with that error, and
the message is delivered again after the group's backoff. In a service the loop would be
``for message in consumer``, which waits for ever.

Prints:

    attempt 1: mail to anna: sent
    attempt 1: mail to bert: the mail server is down
    attempt 2: mail to bert: sent
    depth 0
"""

import contextlib

import penstock


def send_mail(message: penstock.ReceivedMessage) -> None:
    print(f"attempt {message.attempt}: mail to {message.value.decode()}: ", end="")
    if message.value == b"bert" and message.attempt == 1:
        print("the mail server is down")
        raise ConnectionError("the mail server is down")
    print("sent")


def main() -> None:
    with penstock.open() as broker:
        queue = broker.queue("mails")
        queue.publish_batch([b"anna", b"bert"])
        with queue.subscribe(backoff=["50ms", "1s"]) as consumer:
            while messages := consumer.receive(wait="200ms"):
                for message in messages:
                    with contextlib.suppress(ConnectionError), message:
                        send_mail(message)
        print("depth", queue.depth())


if __name__ == "__main__":
    main()
