"""A directory keeps everything: messages, who has settled what, attempts, and the schedule.

Opening it again finds the queue as it was. What was acknowledged and answered is not delivered again;
what was on loan when the process ended is. Only one process at a time has the directory open.

Prints:

    first process: settled b'one', had b'two' in hand
    a second broker on the directory: DIRECTORY_IN_USE
    second process: gets b'two', attempt 1
    second process: gets b'three', attempt 1
    and all of it can be read again: [b'one', b'two', b'three']
"""

import penstock
from penstock.errors import DirectoryInUse


def main() -> None:
    with penstock.open("data") as broker:
        broker.create_topic("jobs", retention="30d")
        broker.publish_batch("jobs", [b"one", b"two", b"three"])
        consumer = broker.consumer("jobs", group="workers")
        [one] = consumer.receive()
        one.ack()
        [two] = consumer.receive()
        print(f"first process: settled {one.value!r}, had {two.value!r} in hand")
        try:
            penstock.open("data")
        except DirectoryInUse as error:
            print("a second broker on the directory:", error.code)

    with penstock.open("data") as broker:  # The same after a crash, but for the attempt of b"two".
        with broker.consumer("jobs", group="workers") as consumer:
            while messages := consumer.receive():
                for message in messages:
                    print(f"second process: gets {message.value!r}, attempt {message.attempt}")
                    message.ack()
        print("and all of it can be read again:", [message.value for message in broker.read("jobs")])


if __name__ == "__main__":
    main()
