"""Testing workers with the fixture: no server, no waiting, in the test's own thread."""

import asyncio
import threading

import pytest

import penstock as p
from penstock.errors import InvalidValue
from penstock.testing import TestBroker


def test_drain_works_on_everything_that_waits(penstock: TestBroker) -> None:
    app, done = p.App(), list[bytes]()

    @app.worker("orders")
    async def handle(message: p.Message) -> None:
        done.append(message.value)

    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"a", b"b", b"c"])

    assert app.drain(penstock) == 3
    assert done == [b"a", b"b", b"c"]
    assert app.drain(penstock) == 0


def test_topics_are_there_after_the_first_drain(penstock: TestBroker) -> None:
    app = p.App()
    app.worker("orders")(print)

    assert app.drain(penstock) == 0
    assert penstock.topics() == ["orders"]


def test_one_function_may_make_work_for_another(penstock: TestBroker) -> None:
    app, done = p.App(), list[bytes]()

    @app.worker("mails")
    def mail(message: p.WorkerMessage) -> None:
        done.append(message.value)

    @app.worker("orders")
    async def handle(message: p.AsyncWorkerMessage) -> None:
        await message.ack(publish=[("mails", p.Message(b"thanks for " + message.value))])

    app.drain(penstock)
    penstock.publish("orders", b"two books")

    assert app.drain(penstock) == 2
    assert done == [b"thanks for two books"]


def test_retries_come_when_their_time_has_come(
    penstock: TestBroker, caplog: pytest.LogCaptureFixture
) -> None:
    app = p.App()

    @app.worker("orders", max_attempts=2, backoff=["1h"])
    def handle(message: p.Message) -> None:
        raise OSError("the mailbox is full")

    app.drain(penstock)
    penstock.publish("orders", b"x")

    assert (app.drain(penstock), app.drain(penstock)) == (1, 0)
    penstock.advance("1h")
    assert app.drain(penstock) == 1
    [letter] = penstock.dead_letters("orders")
    assert (letter.error, letter.attempts) == ("OSError: the mailbox is full", 2)
    assert "raise OSError" in caplog.text


def test_schedules_fire_as_time_passes(penstock: TestBroker) -> None:
    app, done = p.App(), list[str]()

    @app.schedule("0 9 * * *")
    async def report() -> None:
        done.append("report")

    app.drain(penstock)
    penstock.advance("2d")

    assert app.drain(penstock) == 2
    assert done == ["report", "report"]


def test_a_plain_function_runs_in_the_test_s_own_thread_and_answers_there(penstock: TestBroker) -> None:
    app, threads = p.App(), list[threading.Thread]()

    @app.worker("orders", timeout="10s")
    def handle(message: p.WorkerMessage) -> None:
        threads.append(threading.current_thread())
        message.extend("1m")
        message.reject("no good")

    app.drain(penstock)
    penstock.publish("orders", b"x")
    app.drain(penstock)

    assert threads == [threading.current_thread()]
    assert len(penstock.dead_letters("orders")) == 1


async def test_an_async_test_may_drain_too(penstock: TestBroker) -> None:
    app, done = p.App(), list[bytes]()

    @app.worker("orders")
    async def handle(message: p.Message) -> None:
        await asyncio.sleep(0)
        done.append(message.value)

    app.drain(penstock)
    penstock.publish("orders", b"x")

    assert app.drain(penstock) == 1
    assert done == [b"x"]


async def test_an_async_test_hears_of_a_refusal_too(penstock: TestBroker) -> None:
    app = p.App()
    app.schedule("every night")(print)

    with pytest.raises(InvalidValue, match="five fields"):
        app.drain(penstock)


def test_the_traceback_of_a_failure_is_the_functions_own(
    penstock: TestBroker, caplog: pytest.LogCaptureFixture
) -> None:
    app = p.App()

    @app.worker("orders")
    def handle(message: p.Message) -> None:
        raise KeyError(message.value)

    app.drain(penstock)
    penstock.publish("orders", b"two books")
    app.drain(penstock)

    [failure] = [record.exc_info for record in caplog.records if record.exc_info]
    assert isinstance(failure[1], KeyError)
    assert "no running event loop" not in caplog.text
