"""Subscriptions: who gets what, when it comes back, and what becomes of clients that do not read."""

import asyncio
import socket
from typing import Any

import pytest

from penstock.config.broker import BrokerConfig, GroupSettings, TopicSettings

ONE = TopicSettings(partitions=1)


async def test_the_answer_comes_before_the_messages(door: Any) -> None:
    client = await door.connect()

    client.send("SUB orders\nPUB orders one\n")

    assert await client.line() == "OK Subscribed to orders"
    published = await client.line()
    identity = published.removeprefix("OK Published ")
    assert await client.line() == f"MSG orders {identity} one"


async def test_a_message_goes_to_one_subscriber_of_a_group_and_to_every_group(door: Any) -> None:
    first, second, other = [await door.connect() for _ in range(3)]
    await first.ask("SUB orders")
    await second.ask("SUB orders")
    await other.ask("SUB orders audit")
    publisher = await door.connect()

    for number in range(10):
        await publisher.ask(f"PUB orders {number}")
    seen = [await other.line() for _ in range(10)]
    for line in seen:
        assert await other.ask(f"ACK {line.split()[2]}") == "OK ACK"

    described = await door.broker.describe_group("orders", "default")
    assert sorted(line.split()[3] for line in seen) == sorted(map(str, range(10)))
    assert described.in_flight == 10
    assert described.lag == 10
    assert (await door.broker.describe_group("orders", "audit")).lag == 0


async def test_an_acknowledged_message_is_settled_once(door: Any) -> None:
    client = await door.connect()
    await client.ask("SUB orders")
    published = await client.ask("PUB orders one")
    await client.line()
    identity = published.rsplit(" ", 1)[1]

    assert await client.ask(f"ACK {identity}") == "OK ACK"
    assert await client.ask(f"ACK {identity}") == "ERR Message ID not found or already acknowledged."
    assert (await door.broker.describe_group("orders", "default")).lag == 0


async def test_nobody_may_acknowledge_what_another_holds(door: Any) -> None:
    holder, other = await door.connect(), await door.connect()
    await holder.ask("SUB orders")
    identity = (await holder.ask("PUB orders one")).rsplit(" ", 1)[1]
    await holder.line()
    await other.ask("SUB orders")

    assert (await other.ask(f"ACK {identity}")).startswith("ERR Message ID not found")
    assert await holder.ask(f"ACK {identity}") == "OK ACK"


async def test_a_vanished_subscribers_messages_come_back(door: Any) -> None:
    client = await door.connect()
    await client.ask("SUB orders")
    published = await client.ask("PUB orders one")
    await client.line()
    identity = published.rsplit(" ", 1)[1]

    await client.close()
    await door.gone()
    other = await door.connect()

    assert await other.ask("SUB orders", 2) == ["OK Subscribed to orders", f"MSG orders {identity} one"]
    assert await other.ask(f"ACK {identity}") == "OK ACK"


@pytest.mark.parametrize(("last_line", "attempt"), [("QUIT", 1), ("PING", 2)])
async def test_leaving_counts_an_attempt_of_what_is_held_unless_the_client_quits(
    door: Any, last_line: str, attempt: int
) -> None:
    client = await door.connect()
    await client.ask("SUB orders")
    await client.ask("PUB orders one", 2)

    await client.ask(last_line)
    await client.close()
    await door.gone()

    async with await door.broker.consumer("orders") as consumer:
        [message] = await consumer.receive()
        assert message.attempt == attempt


async def test_a_message_whose_clients_vanish_is_a_dead_letter_in_the_end(opened: Any) -> None:
    async with opened(BrokerConfig(topic=ONE, group=GroupSettings(max_attempts=2))) as door:
        await door.broker.create_topic("orders")
        await door.broker.publish("orders", b"one")
        for _ in range(2):
            client = await door.connect()
            await client.ask("SUB orders", 2)
            await client.close()
            await door.gone()

        [letter] = await door.broker.dead_letters("orders")

        assert letter.error == "the connection was lost while the message was being processed"


async def test_a_connection_that_is_reset_counts_as_vanished(door: Any) -> None:
    client = await door.connect()
    await client.ask("SUB orders")
    await client.ask("PUB orders one", 2)

    raw = client.writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    client.writer.transport.abort()
    await door.gone()

    assert (await door.broker.describe_group("orders", "default")).in_flight == 0


async def test_a_message_that_is_not_acknowledged_in_time_comes_again(opened: Any) -> None:
    config = BrokerConfig(topic=ONE, group=GroupSettings(visibility_timeout_ms=5000))
    async with opened(config) as door:
        client = await door.connect()
        await client.ask("SUB orders")
        await client.ask("PUB orders one", 2)

        await door.broker.advance("5s")
        await door.broker.advance("2s")  # The backoff before the second attempt.

        assert await client.line() == "MSG orders orders:0:0 one"
        assert await client.ask("ACK orders:0:0") == "OK ACK"


async def test_an_acknowledgement_that_comes_too_late_is_told_so(opened: Any) -> None:
    config = BrokerConfig(topic=ONE, group=GroupSettings(visibility_timeout_ms=5000, max_attempts=1))
    async with opened(config) as door:
        client = await door.connect()
        await client.ask("SUB orders")
        await client.ask("PUB orders one", 2)

        await door.broker.advance("6s")

        assert await client.ask("ACK orders:0:0") == "ERR Message ID not found or already acknowledged."


async def test_no_more_messages_are_on_loan_than_the_limit(opened: Any) -> None:
    async with opened(BrokerConfig(topic=ONE), text_in_flight_max=3) as door:
        await door.broker.create_topic("orders")
        await door.broker.publish_batch("orders", [b"%d" % number for number in range(5)])
        client = await door.connect()

        await client.ask("SUB orders", 4)
        held = (await door.broker.describe_group("orders", "default")).in_flight
        answers = await client.ask("ACK orders:0:1", 2)

        assert held == 3
        assert sorted(answers) == ["MSG orders orders:0:3 3", "OK ACK"]


async def test_a_second_subscription_to_the_same_changes_nothing(door: Any) -> None:
    client = await door.connect()
    await client.ask("SUB orders")

    assert await client.ask("SUB orders") == "OK Subscribed to orders"
    assert len((await door.broker.describe_group("orders", "default")).consumers) == 1


async def test_one_connection_may_have_several_subscriptions_up_to_a_limit(opened: Any) -> None:
    async with opened(BrokerConfig(topic=ONE)) as door:
        client = await door.connect()
        for number in range(100):
            assert await client.ask(f"SUB orders g{number}") == "OK Subscribed to orders"

        assert (await client.ask("SUB orders one-more")).startswith("ERR Too many subscriptions: 100")


async def test_a_subscriber_is_told_when_its_topic_is_deleted(door: Any) -> None:
    client = await door.connect()
    await client.ask("SUB orders")

    await door.broker.delete_topic("orders")

    assert (await client.line()).startswith("GONE orders default ")
    assert await client.ask("SUB orders") == "OK Subscribed to orders"


@pytest.mark.slow
async def test_a_client_that_does_not_read_is_not_sent_to_and_others_are(opened: Any) -> None:
    """Its messages are 64 KiB each: the sockets of both sides fill up after some of them."""
    async with opened(BrokerConfig(topic=ONE), write_buffer_bytes_max=64 * 1024) as door:
        slow = await door.connect(limit=1024)
        await slow.ask("SUB orders slow")
        quick = await door.connect(limit=1 << 20)
        await quick.ask("SUB orders quick")

        for _ in range(200):
            await door.broker.publish("orders", b"x" * 64 * 1024)
        seen = 0
        while seen < 200:
            line = await quick.line()
            seen += line.startswith("MSG")
            quick.send(f"ACK {line.split()[2]}\n" if line.startswith("MSG") else "")

        held = (await door.broker.describe_group("orders", "slow")).in_flight
        assert 0 < held < 150
        [connection] = [
            each
            for each in door.listener._tasks
            if each._transport.get_extra_info("peername") == slow.writer.get_extra_info("sockname")
        ]
        assert connection._transport.get_write_buffer_size() < 5 * 64 * 1024
        slow.writer.transport.abort()


@pytest.mark.slow
async def test_a_consumed_partition_waits_for_a_client_that_does_not_read(opened: Any) -> None:
    async with opened(BrokerConfig(topic=ONE), write_buffer_bytes_max=64 * 1024) as door:
        await door.broker.create_topic("orders")
        for _ in range(300):
            await door.broker.publish("orders", b"x" * 64 * 1024)
        client = await door.connect(limit=1024)

        client.send("CONSUME orders 0\n")
        answer = bytearray(await client.reader.readexactly(100))
        for _ in range(100):  # Turns of the loop, in which the server could go on.
            await asyncio.sleep(0)
        [connection] = door.listener._tasks
        waiting = connection._transport.get_write_buffer_size()
        await door.broker.publish_batch("orders", [b"too late"] * 100)
        while not answer.endswith(b"OK END 300\n"):
            answer += await asyncio.wait_for(client.reader.read(1 << 20), 60)

        assert waiting < 100 * 64 * 1024  # One chunk of 64 messages.
        assert answer.count(b"MSG orders ") == 300
