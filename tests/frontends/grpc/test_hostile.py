"""What strangers send: random bytes, requests that are none, calls that are too large, slow or cancelled."""

import asyncio
import random
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import SERVICE_NAME as HEALTH
from tests.frontends.grpc.place import PATIENCE_S, Conversation, Place, info_of, place, ranges, until, values

from penstock.config.server import GrpcSettings, LimitSettings
from penstock.frontends.grpc.call import UNKNOWN_OF_HOST_MAX
from penstock.frontends.grpc.consuming import RECEIVES_MAX, REQUESTS_MAX, ConsumeStream
from penstock.frontends.grpc.reflection import REFLECTION
from penstock.frontends.grpc.server import CALLS_MAX
from penstock.grpc import penstock_pb2 as pb
from penstock.grpc.penstock_pb2_grpc import AdminStub, ConsumerStub, PublisherStub
from penstock.model.access import Grant

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


async def still_works(api: Place) -> None:
    message = pb.Message(value=b"x")
    await api.publisher.Publish(pb.PublishRequest(topic="orders", message=message), timeout=PATIENCE_S)


@pytest.mark.parametrize("preface", [b"", PREFACE, b"GET / HTTP/1.1\r\n\r\n"])
async def test_random_bytes_on_the_port_harm_nobody(api: Place, preface: bytes) -> None:
    chance = random.Random(7)
    for _ in range(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
        writer.write(preface + chance.randbytes(chance.randrange(1, 2000)))
        writer.write_eof()
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ConnectionError):
                await reader.read()
        writer.close()

    await still_works(api)


async def test_a_request_that_is_no_message_is_refused_without_a_word_in_the_log(
    api: Place, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(7)
    services = [
        f"/{service.full_name}/{method.name}"
        for service in pb.DESCRIPTOR.services_by_name.values()
        for method in service.methods
        if not method.client_streaming and method.input_type.fields
    ]

    for path in services:
        call: grpc.aio.UnaryUnaryMultiCallable[Any, Any] = api.channel.unary_unary(path)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(b"\xff" + chance.randbytes(20), timeout=PATIENCE_S)
        assert info_of(refused.value).reason == "PROTOCOL_VIOLATION"

    assert caplog.text == ""
    await still_works(api)


@pytest.mark.parametrize("method", ["Check", "Watch"])
async def test_a_health_check_that_is_none_is_refused_without_a_word_in_the_log(
    api: Place, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    call: grpc.aio.UnaryUnaryMultiCallable[Any, Any] = api.channel.unary_unary(f"/{HEALTH}/{method}")

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call(b"\xff\xff\xff", timeout=PATIENCE_S)

    assert info_of(refused.value).reason == "PROTOCOL_VIOLATION"
    assert caplog.text == ""


def frame(kind: int, flags: int, stream: int, data: bytes) -> bytes:
    """A frame of HTTP/2."""
    return len(data).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + data


def text(value: str) -> bytes:
    """A string in a header block, as it is."""
    return bytes((len(value),)) + value.encode()


def header_block(path: str) -> bytes:
    """The headers of a call."""
    headers = {
        ":method": "POST", ":scheme": "http", ":path": path, ":authority": "x",
        "te": "trailers", "content-type": "application/grpc",
    }  # fmt: skip
    return b"".join(b"\x00" + text(name) + text(value) for name, value in headers.items())


async def test_calls_that_are_opened_and_reset_at_once_leave_nothing_behind(api: Place) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    block = header_block("/penstock.v1.Publisher/Publish")
    reset = (8).to_bytes(4, "big")  # CANCEL
    writer.write(PREFACE + frame(4, 0, 0, b""))

    for stream in range(1, 20_000, 2):
        writer.write(frame(1, 4, stream, block) + frame(3, 0, stream, reset))
    writer.write(frame(6, 0, 0, b"the last"))  # PING
    heard = b""
    async with asyncio.timeout(PATIENCE_S):
        while b"the last" not in heard:
            heard = heard[-8:] + await reader.read(65_536)
    await still_works(api)
    writer.close()

    await until(lambda: not api.listener.shared.calls)


async def test_a_watch_that_is_not_read_keeps_no_health_check_waiting() -> None:
    async with place() as api:
        block = header_block(f"/{HEALTH}/Watch")
        no_window = frame(4, 0, 0, (4).to_bytes(2, "big") + (0).to_bytes(4, "big"))
        _, writer = await asyncio.open_connection("127.0.0.1", api.port)
        writer.write(PREFACE + no_window + frame(1, 4, 1, block) + frame(0, 1, 1, bytes(5)))
        health = api.listener._health
        await until(lambda: bool(health._watches))
        stub = health_pb2_grpc.HealthStub(api.channel)

        answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S / 2):
            await api.listener.drain()
        writer.close()

        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        await until(lambda: not health._watches)


async def test_watches_of_the_health_are_bounded(api: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.frontends.grpc.health.WATCHES_MAX", 1)
    stub = health_pb2_grpc.HealthStub(api.channel)
    first = stub.Watch(health_pb2.HealthCheckRequest())
    await first.read()

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S).read()
    first.cancel()

    assert info_of(refused.value).reason == "OVERLOADED"
    assert (await stub.Check(health_pb2.HealthCheckRequest())).status == 1


@pytest.mark.parametrize(
    "path", [f"/{HEALTH}/Check", f"/{HEALTH}/Watch", f"/{REFLECTION}/ServerReflectionInfo"]
)
async def test_calls_that_send_no_request_leave_room_for_who_has_a_key(path: str) -> None:
    async with place(authentication=True) as api, AsyncExitStack() as channels:
        made = await api.broker.create_key("producer", [Grant(role="producer")])
        waiting: list[grpc.aio.StreamUnaryCall[Any, Any]] = []
        for number in range(11):
            options = [("grpc.use_local_subchannel_pool", 1)]
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{api.port}", options=options)
            await channels.enter_async_context(channel)
            method: grpc.aio.StreamUnaryMultiCallable[Any, Any] = channel.stream_unary(path)
            waiting += [method(metadata=(("x-number", str(number)),)) for _ in range(100)]
        await until(lambda: sum(call.done() for call in waiting) == len(waiting) - UNKNOWN_OF_HOST_MAX)

        message = pb.PublishRequest(topic="orders", message=pb.Message(value=b"x"))
        metadata = (("authorization", f"Bearer {made.key}"),)
        receipt = await api.publisher.Publish(message, metadata=metadata, timeout=PATIENCE_S)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await next(call for call in waiting if call.done())

        assert receipt.offset == 0
        assert info_of(refused.value).reason == "OVERLOADED"
        for call in waiting:
            call.cancel()
        await until(lambda: not api.listener.shared._unknown)


async def test_a_call_without_a_login_is_refused_before_its_request_is_sent() -> None:
    paths = [
        f"/{service.full_name}/{method.name}"
        for service in pb.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ]
    async with place(authentication=True) as api:
        for path in paths:
            method: grpc.aio.StreamStreamMultiCallable[Any, Any] = api.channel.stream_stream(path)
            call = method(timeout=PATIENCE_S)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call.read()
            assert info_of(refused.value).reason == "UNAUTHENTICATED", path


async def test_calls_without_a_login_are_bounded_over_all_addresses(
    api: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.frontends.grpc.call.UNKNOWN_CALLS_MAX", 1)
    stub = health_pb2_grpc.HealthStub(api.channel)
    watching = stub.Watch(health_pb2.HealthCheckRequest())
    await watching.read()

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
    watching.cancel()

    assert info_of(refused.value).reason == "OVERLOADED"
    await until(lambda: not api.listener.shared._unknown)
    assert (await stub.Check(health_pb2.HealthCheckRequest())).status == 1


async def test_logins_in_progress_are_bounded_and_a_known_key_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with place(authentication=True) as api:
        made = await api.broker.create_key("producer", [Grant(role="producer")])
        await api.broker.set_user("anna", "secret-word", [Grant(role="producer")])
        known = (("authorization", f"Bearer {made.key}"),)
        user = (("authorization", "Basic YW5uYTpzZWNyZXQtd29yZA=="),)
        request = pb.PublishRequest(topic="orders", message=pb.Message(value=b"x"))
        await api.publisher.Publish(request, metadata=known, timeout=PATIENCE_S)

        monkeypatch.setattr("penstock.frontends.grpc.call.LOGINS_MAX", 0)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await api.publisher.Publish(request, metadata=user, timeout=PATIENCE_S)

        assert info_of(refused.value).reason == "OVERLOADED"
        receipt = await api.publisher.Publish(request, metadata=known, timeout=PATIENCE_S)
        assert receipt.offset == 1


async def test_a_call_that_ends_without_a_request_is_refused() -> None:
    async with place(authentication=True) as api:
        made = await api.broker.create_key("producer", [Grant(role="producer")])
        method: grpc.aio.StreamStreamMultiCallable[Any, Any] = api.channel.stream_stream(
            "/penstock.v1.Publisher/Publish"
        )
        call = method(metadata=(("authorization", f"Bearer {made.key}"),), timeout=PATIENCE_S)

        await call.done_writing()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()

        assert info_of(refused.value).reason == "PROTOCOL_VIOLATION"


async def test_noise_in_a_stream_is_refused(api: Place) -> None:
    consume: grpc.aio.StreamStreamMultiCallable[Any, Any] = api.channel.stream_stream(
        "/penstock.v1.Consumer/Consume"
    )
    stream = consume()
    await stream.write(pb.ConsumeRequest(open=pb.Open(topic="orders", group="g")).SerializeToString())
    await stream.read()

    await stream.write(b"\xff\xff\xff")
    read: Any = await stream.read()
    answer = pb.ConsumeResponse.FromString(read)
    publish: grpc.aio.StreamUnaryMultiCallable[Any, Any] = api.channel.stream_unary(
        "/penstock.v1.Publisher/PublishStream"
    )
    publishing = publish()
    await publishing.write(b"\xff\xff\xff")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await publishing

    assert answer.error.code == "PROTOCOL_VIOLATION"
    assert info_of(refused.value).reason == "PROTOCOL_VIOLATION"
    await still_works(api)


@pytest.mark.parametrize(
    "where",
    [
        {"start": -5, "end": 5},
        {"start": 5, "end": 1},
        {"start": 0, "end": 2**62},
        {"start": 2**62, "end": 2**62 + 1},
        {"partition": 2**31 - 1, "end": 1},
        {"partition": -1, "end": 1},
        {"lease": 2**62, "end": 1},
        {"lease": -1, "end": 1},
    ],
)
@pytest.mark.parametrize("way", ["ack", "nack", "reject", "extend"])
async def test_ranges_that_nobody_was_lent_are_refused(
    api: Place, where: dict[str, int], way: str, caplog: pytest.LogCaptureFixture
) -> None:
    await api.publish(b"0", b"1")
    stream = Conversation(api)
    await stream.open()
    [leased] = await stream.receive()
    forged = pb.LeaseRange(**{"lease": leased.range.lease, **where})  # type: ignore[arg-type]
    wanted = {
        "ack": pb.Settle(ranges=[forged]),
        "nack": pb.Failed(ranges=[forged]),
        "reject": pb.Refused(ranges=[forged], reason="no"),
        "extend": pb.Longer(ranges=[forged], duration_ms=1000),
    }

    answer = await stream.ask(**{way: wanted[way]})

    known = way == "extend" and forged.lease == leased.range.lease and forged.partition == 0
    assert answer.HasField("done" if known else "error")
    assert answer.error.code != "INTERNAL"
    assert caplog.text == ""
    done = await stream.ask(ack=pb.Settle(ranges=[leased.range]))
    assert done.HasField("done")


async def test_a_request_that_is_too_large_is_refused_and_the_next_is_not() -> None:
    async with place(settings=GrpcSettings(message_bytes_max=10_000)) as api:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await api.publish(b"x" * 20_000)

        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        await still_works(api)


async def test_a_message_that_its_topic_does_not_take_is_refused(api: Place) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await api.publish(b"x" * (1024 * 1024 + 1))

    assert info_of(refused.value).reason == "MESSAGE_TOO_LARGE"


async def test_a_slow_stream_keeps_nobody_waiting(api: Place) -> None:
    async def one_and_no_more() -> AsyncIterator[pb.PublishBatchRequest]:
        yield pb.PublishBatchRequest(topic="orders", values=[b"x"])
        await asyncio.Event().wait()

    slow = api.publisher.PublishStream(one_and_no_more())
    silent = api.consumer.Consume()
    await still_works(api)

    slow.cancel()
    silent.cancel()
    await still_works(api)


async def test_a_client_that_does_not_read_is_not_read_from(api: Place) -> None:
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.http2.bdp_probe", 0)]
    small = grpc.aio.insecure_channel(f"127.0.0.1:{api.port}", options=options)  # 64 KiB may be unread.
    api.consumer = ConsumerStub(small)
    stream = Conversation(api)
    await stream.open()
    [end] = api.listener.shared.ends
    server: ConsumeStream = end.__self__  # type: ignore[attr-defined]

    async def flood() -> None:
        while True:
            await stream.send(ack=pb.Settle(outputs=[pb.Output(topic="x" * 2000)]))  # A long answer.

    sending = asyncio.ensure_future(flood())
    await until(lambda: server._open >= REQUESTS_MAX)
    waiting = server._open
    for _ in range(100):
        assert (await stream.hear()).error.code == "NAME_INVALID"
    sending.cancel()
    await asyncio.wait([sending])
    await small.close()

    assert waiting == REQUESTS_MAX

    await still_works(api)


async def test_receives_whose_answers_are_not_read_are_not_begun(api: Place) -> None:
    count = 2 * RECEIVES_MAX
    for _ in range(count):
        await api.publish(b"x" * 500_000)
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.http2.bdp_probe", 0)]
    small = grpc.aio.insecure_channel(f"127.0.0.1:{api.port}", options=options)  # 64 KiB may be unread.
    api.consumer = ConsumerStub(small)
    stream = Conversation(api)
    await stream.open()
    [end] = api.listener.shared.ends
    server: ConsumeStream = end.__self__  # type: ignore[attr-defined]
    await until(lambda: server._open == 0)

    for _ in range(count):
        await stream.send(receive=pb.Receive(max_messages=1))
    await until(lambda: server._open > RECEIVES_MAX)
    begun = await api.in_flight()
    answers = [await stream.hear() for _ in range(count)]
    await small.close()

    assert begun == RECEIVES_MAX
    assert [len(answer.received.leases) for answer in answers] == [1] * count


async def test_calls_that_are_cancelled_at_once_leave_nothing_behind(api: Place) -> None:
    await api.broker.create_group("orders", "g", start="earliest", max_attempts=1000)  # No dead letters.
    await api.publish(*[b"%d" % number for number in range(20)])
    chance = random.Random(7)
    for _ in range(60):
        request = pb.PollRequest(topic="orders", group="g", max_messages=5, wait_ms=1000)
        call = api.consumer.Poll(request)
        await asyncio.sleep(chance.random() * 0.004)
        if not call.cancel():
            continue

    await until(lambda: not api.listener.shared._calls)
    assert api.listener.shared._connections.count == 0
    # Of polls that were answered before they were cancelled, the leases are held until they time out; there
    # is nothing that was given out and is neither held nor waiting.
    info = await api.broker.describe_group("orders", "g")
    assert info.lag == 20


async def test_one_connection_too_many_is_refused() -> None:
    async with place(limits=LimitSettings(connections_max=1)) as api:
        stream = Conversation(api)
        await stream.open()
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{api.port}", options=options) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await AdminStub(channel).ListTopics(pb.Empty(), timeout=5)

        assert refused.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
        await still_works(api)


async def test_calls_are_limited_for_a_connection(api: Place) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(PREFACE + frame(4, 0, 0, b""))

    async with asyncio.timeout(PATIENCE_S):
        head = await reader.readexactly(9)
        data = await reader.readexactly(int.from_bytes(head[:3], "big"))
    writer.close()

    pairs = [data[at : at + 6] for at in range(0, len(data), 6)]
    settings = {int.from_bytes(pair[:2], "big"): int.from_bytes(pair[2:], "big") for pair in pairs}
    assert head[3] == 4  # SETTINGS
    assert settings[3] == 100  # MAX_CONCURRENT_STREAMS


async def test_calls_up_to_the_limit_of_a_connection_are_never_refused(api: Place) -> None:
    request = pb.PublishRequest(topic="orders", message=pb.Message(value=b"x"))

    def publish(stub: PublisherStub) -> int:
        """Call after call: the next one arrives while the server still frees the one before."""
        return len([stub.Publish(request, timeout=PATIENCE_S) for _ in range(20)])

    def publish_all() -> int:
        with grpc.insecure_channel(f"127.0.0.1:{api.port}") as channel, ThreadPoolExecutor(CALLS_MAX) as pool:
            return sum(pool.map(publish, [PublisherStub(channel)] * CALLS_MAX))

    assert await asyncio.to_thread(publish_all) == 20 * CALLS_MAX


async def test_calls_are_limited_for_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.frontends.grpc.server.ALL_CALLS_MAX", 1)
    async with place() as api:
        stream = Conversation(api)
        await stream.open()

        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await api.admin.ListTopics(pb.Empty(), timeout=PATIENCE_S)
        await stream.call.done_writing()
        assert (await stream.hear()).HasField("closed")
        assert await stream.call.code() == grpc.StatusCode.OK

        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        async with asyncio.timeout(PATIENCE_S):
            while True:  # gRPC counts a call for a moment after its answer.
                with suppress(grpc.aio.AioRpcError):
                    await still_works(api)
                    break


async def test_a_message_is_received_in_the_midst_of_noise(api: Place) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(PREFACE + b"\x00\x00\x01")  # Half a frame, and then nothing.
    stream = Conversation(api)
    await stream.open()
    await api.publish(b"x")

    leases = await stream.receive()
    await stream.ask(ack=pb.Settle(ranges=ranges(leases)))
    writer.close()

    assert values(leases) == [b"x"]
