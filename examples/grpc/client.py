"""Publish, consume and ack over gRPC with the generated stubs; neither the broker nor our client is loaded.

pip install 'penstock[grpc]'
penstock serve --grpc 9000 &
python examples/grpc/client.py 127.0.0.1:9000
"""

import sys
from collections.abc import Iterator
from queue import SimpleQueue

import grpc

from penstock.grpc import penstock_pb2 as pb
from penstock.grpc.penstock_pb2_grpc import ConsumerStub, PublisherStub


def main(address: str) -> None:
    """Three messages there and back."""
    with grpc.insecure_channel(address) as channel:
        publisher = PublisherStub(channel)
        for value in (b"one", b"two", b"three"):
            message = pb.Message(value=value, headers={"from": "python"})
            receipt = publisher.Publish(pb.PublishRequest(topic="py-orders", message=message))
            print("published", receipt.id)
        consume(ConsumerStub(channel), 3)


def consume(consumer: ConsumerStub, count: int) -> None:
    """Receive and ack so many messages on one stream."""
    requests: SimpleQueue[pb.ConsumeRequest | None] = SimpleQueue()  # None closes our side.
    receive = pb.ConsumeRequest(id=2, receive=pb.Receive(max_messages=10, wait_ms=10_000))
    requests.put(pb.ConsumeRequest(id=1, open=pb.Open(topic="py-orders", group="py-workers")))
    requests.put(receive)

    def sending() -> Iterator[pb.ConsumeRequest]:
        while (request := requests.get()) is not None:
            yield request

    for response in consumer.Consume(sending(), timeout=60):
        if response.HasField("error"):
            raise SystemExit(f"{response.error.code}: {response.error.message}")
        if response.HasField("received"):
            for leased in response.received.leases:
                for message in leased.messages:
                    print(
                        f"received {message.value.decode()} from {message.headers['from']}, "
                        f"attempt {leased.attempt}"
                    )
                    count -= 1
                requests.put(pb.ConsumeRequest(id=3, ack=pb.Settle(ranges=[leased.range])))
            requests.put(receive if count > 0 else None)
    print("all acked")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9000")
