"""A server whose wall clock jumps: seen through a client, in virtual time."""

import pytest
from tests.server.virtual import TroubledServer

import penstock

HOUR_S = 3600


@pytest.mark.parametrize("back", [False, True])
def test_a_scheduled_message_comes_once_and_by_the_wall_clock(back: bool) -> None:
    with TroubledServer() as server, penstock.connect(server.url) as broker:
        broker.create_topic("reports")
        receipt = broker.publish("reports", b"monthly", delay="2h")
        assert receipt.schedule_id is not None
        server.clock.step_wall("1h", back=back)

        server.advance(HOUR_S if not back else 3 * HOUR_S)
        server.advance("1m")

        assert [message.value for message in broker.read("reports")] == [b"monthly"]
        assert broker.scheduled_count("reports") == 0
        server.clock.step_wall("3h", back=not back)
        server.advance("6h")
        assert [message.value for message in broker.read("reports")] == [b"monthly"]


def test_a_scheduled_message_does_not_come_before_its_time_when_the_clock_is_set_back() -> None:
    with TroubledServer() as server, penstock.connect(server.url) as broker:
        broker.create_topic("reports")
        broker.publish("reports", b"monthly", delay="2h")
        server.clock.step_wall("1h", back=True)

        server.advance(3 * HOUR_S - 60)

        assert broker.read("reports") == []
        assert broker.scheduled_count("reports") == 1


@pytest.mark.parametrize("back", [False, True])
def test_leases_and_retries_do_not_notice_the_wall_clock(back: bool) -> None:
    with TroubledServer() as server, penstock.connect(server.url) as broker:
        broker.create_topic("orders")
        broker.create_group("orders", "work", visibility_timeout="10m", backoff=["1m"])
        broker.publish("orders", b"one")
        with broker.consumer("orders", group="work", heartbeat=False) as consumer:
            [message] = consumer.receive()
            server.clock.step_wall("1h", back=back)
            server.advance("9m")
            message.nack()
            assert consumer.receive() == []

            server.advance("1m")

            [again] = consumer.receive()
            assert again.attempt == 2
            again.ack()
