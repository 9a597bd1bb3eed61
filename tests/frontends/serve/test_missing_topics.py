"""One rule for topics that do not exist, whichever way they are used: ``topic.auto_create``."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from penstock import Grant, Message, aio
from penstock.config.broker import TopicOptions
from penstock.config.server import (
    ListenSettings,
    SecuritySettings,
    ServerConfig,
    ServerSettings,
    TopicDefaults,
)
from penstock.errors import PenstockError, TopicNotFound
from penstock.frontends.serve import Server

FREE = ListenSettings(native="0", text="0", status="off", http="0", kafka="0")
PATIENCE_S = 60

Use = Callable[[Server], Awaitable[str]]  # Uses the topic "new", and says how that was refused, or "".


@asynccontextmanager
async def serving(*, auto_create: bool, authentication: bool = False) -> AsyncIterator[Server]:
    config = ServerConfig(
        server=ServerSettings(data=":memory:"),
        listen=FREE,
        topic=TopicDefaults(partitions=2, auto_create=auto_create),
        security=SecuritySettings(authentication=authentication),
    )
    async with await Server.open(config) as server:
        yield server


def url(server: Server) -> str:
    return "penstock://{}:{}".format(*server.addresses["native"])


async def said(server: Server, listener: str, request: bytes) -> bytes:
    """The first answer to some bytes."""
    reader, writer = await asyncio.open_connection(*server.addresses[listener])
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(65536), PATIENCE_S)
    writer.close()
    return answer


async def native_publish(server: Server) -> str:
    async with aio.connect(url(server)) as broker:
        try:
            await broker.publish("new", b"x")
        except PenstockError as error:
            return error.code
    return ""


async def native_consumer(server: Server) -> str:
    async with aio.connect(url(server)) as broker:
        try:
            await broker.consumer("new")
        except PenstockError as error:
            return error.code
    return ""


async def http_publish(server: Server) -> str:
    return await posted(server, "/v1/topics/new/publish", b'{"text": "x"}')


async def http_receive(server: Server) -> str:
    return await posted(server, "/v1/topics/new/groups/g/receive", b"{}")


async def posted(server: Server, path: str, body: bytes) -> str:
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    request = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
    status, _, rest = (await said(server, "http", request)).partition(b"\r\n")
    return "" if b" 200 " in status else str(json.loads(rest.partition(b"\r\n\r\n")[2])["code"])


async def kafka_produce(server: Server) -> str:
    address = "{}:{}".format(*server.addresses["kafka"])
    producer = AIOKafkaProducer(bootstrap_servers=address, request_timeout_ms=2000)
    await producer.start()
    try:
        await producer.send_and_wait("new", b"x")
    except KafkaError:
        return TopicNotFound.code
    finally:
        await producer.stop()
    return ""


async def text_produce(server: Server) -> str:
    return refused(await said(server, "text", b"PRODUCE new 0 x\n"))


async def text_sub(server: Server) -> str:
    return refused(await said(server, "text", b"SUB new\n"))


async def kqueue_sub(server: Server) -> str:
    return refused(await said(server, "native", kqueue(2, b'{"Topic":"new"}')))


def kqueue(opcode: int, body: bytes) -> bytes:
    return bytes([opcode]) + len(body).to_bytes(4) + body


def refused(answer: bytes) -> str:
    if answer.startswith(b"OK"):
        return ""
    assert b"no topic 'new'" in answer or b"Topic not found" in answer, answer
    return TopicNotFound.code


async def command(server: Server) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock", "produce", "new", "x", "--server", url(server)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0 or b"TOPIC_NOT_FOUND" in said, said
    return "" if process.returncode == 0 else TopicNotFound.code


USES: list[Use] = [
    native_publish, native_consumer, http_publish, http_receive, kafka_produce, text_produce, text_sub,
    kqueue_sub, command,
]  # fmt: skip


@pytest.mark.parametrize("use", USES, ids=lambda use: str(use.__name__))
async def test_a_topic_that_is_used_before_it_exists_is_created(use: Use) -> None:
    async with serving(auto_create=True) as server:
        assert await use(server) == ""

        assert await server.broker.topics() == ["new"]


@pytest.mark.parametrize("use", USES, ids=lambda use: str(use.__name__))
async def test_where_topics_are_created_on_purpose_only_it_is_not_found(use: Use) -> None:
    async with serving(auto_create=False) as server:
        assert await use(server) == TopicNotFound.code
        assert await server.broker.topics() == []

        options: TopicOptions = {"partitions": 2}
        await server.broker.create_topic("new", **options)
        assert await use(server) == ""


async def test_many_who_use_it_at_once_create_it_once(tmp_path: Path) -> None:
    config = ServerConfig(server=ServerSettings(data=str(tmp_path)), listen=FREE)
    async with await Server.open(config) as server, AsyncExitStack() as clients:
        brokers = [await clients.enter_async_context(aio.connect(url(server))) for _ in range(5)]
        publishes = [broker.publish("new", b"x") for broker in brokers for _ in range(10)]
        consumers = [broker.consumer("new", group="g") for broker in brokers]

        receipts, _ = await asyncio.gather(asyncio.gather(*publishes), asyncio.gather(*consumers))

        assert len({receipt.id for receipt in receipts}) == 50
        assert (await server.broker.describe_topic("new")).messages == 50


async def test_the_pub_of_kqueue_creates_no_topic() -> None:
    """Its clients know this answer, and subscribe."""
    async with serving(auto_create=True) as server:
        binary = await said(server, "native", kqueue(1, b'{"Topic":"new","Payload":"x"}'))
        text = await said(server, "text", b"PUB new x\n")

        assert binary == text == b"ERR Topic not found. Try subscribing first.\n"
        assert await server.broker.topics() == []


async def test_a_topic_is_created_for_those_who_may_create_it() -> None:
    async with serving(auto_create=True, authentication=True) as server:
        producer = await server.broker.create_key("producer", [Grant(role="producer")])
        admin = await server.broker.create_key("admin", [Grant(role="admin", topics=["new*"])])

        async with aio.connect(url(server), key=producer.key) as broker:
            with pytest.raises(TopicNotFound):
                await broker.publish("new", b"x")
            with pytest.raises(TopicNotFound):
                await (await broker.producer()).publish("new", b"x")
        async with aio.connect(url(server), key=admin.key) as broker:
            await broker.publish("new", b"x")
            consumer = await broker.consumer("new")
            [message] = await consumer.receive()
            await consumer.ack(message, publish=[("new.done", Message(b"y"))])
            await (await broker.producer()).publish("new.too", b"x")
        async with aio.connect(url(server), key=producer.key) as broker:
            await broker.publish("new", b"x")

        assert await server.broker.topics() == ["new", "new.done", "new.too"]


async def test_a_consumer_that_may_publish_and_not_create_topics_acks_nothing() -> None:
    grants = [Grant(role="consumer"), Grant(role="producer")]
    async with serving(auto_create=True, authentication=True) as server:
        key = await server.broker.create_key("worker", grants)
        await server.broker.publish("orders", b"x")

        async with aio.connect(url(server), key=key.key) as broker:
            consumer = await broker.consumer("orders", group="g")
            [message] = await consumer.receive()
            with pytest.raises(TopicNotFound):
                await consumer.ack(message, publish=[("new", Message(b"y"))])

        assert await server.broker.topics() == ["orders"]
        assert (await server.broker.describe_group("orders", "g")).acked == 0
