"""The listener in a server: its address, reflection, health, its end, and what happens without the extra."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from tests.frontends.grpc.place import PATIENCE_S, Conversation, Place, info_of, place, until
from tests.frontends.serve.process import Process, refused

from penstock.config.server import ListenSettings, ServerConfig, ServerSettings
from penstock.errors import AddressUnusable
from penstock.frontends.serve import Server
from penstock.grpc import penstock_pb2 as pb
from penstock.grpc.penstock_pb2_grpc import AdminStub, ConsumerStub, PublisherStub

OTHERS_OFF = ("--native", "off", "--text", "off", "--status", "off", "--http", "off", "--kafka", "off")
# As if it were not installed.
WITHOUT = """
import sys
for name in ("grpc", "grpc_health", "grpc_reflection"):
    sys.modules[name] = None
from penstock.cli.main import main
sys.argv = ["penstock", *sys.argv[1:]]
sys.exit(main())
"""


def config(grpc_address: str) -> ServerConfig:
    listen = ListenSettings(
        native="off", text="off", status="off", http="off", kafka="off", grpc=grpc_address
    )
    return ServerConfig(server=ServerSettings(data=":memory:"), listen=listen)


async def test_an_address_that_is_taken_says_which_setting_to_change() -> None:
    async with await Server.open(config("0")) as first:
        host, port = first.addresses["grpc"]
        with pytest.raises(AddressUnusable, match=r"--grpc HOST:PORT"):
            await Server.open(config(f"{host}:{port}"))


async def test_health_is_served_until_the_end(api: Place) -> None:
    stub = health_pb2_grpc.HealthStub(api.channel)
    states = health_pb2.HealthCheckResponse
    watching = stub.Watch(health_pb2.HealthCheckRequest())

    whole = await stub.Check(health_pb2.HealthCheckRequest())
    one = await stub.Check(health_pb2.HealthCheckRequest(service="penstock.v1.Publisher"))
    first = await watching.read()
    api.listener.shared.draining = True
    ending = await stub.Check(health_pb2.HealthCheckRequest())
    second = await watching.read()
    api.listener.shared.draining = False
    watching.cancel()

    assert [whole.status, one.status, first.status] == [states.SERVING] * 3
    assert [ending.status, second.status] == [states.NOT_SERVING] * 2


async def test_reflection_knows_every_service(api: Place) -> None:
    def look() -> tuple[list[str], list[str]]:
        with grpc.insecure_channel(f"127.0.0.1:{api.port}") as channel:
            found = ProtoReflectionDescriptorDatabase(channel)
            services = list(found.get_services())
            file = found.FindFileContainingSymbol("penstock.v1.Publisher")
            return services, [method.name for method in file.service[0].method]

    services, methods = await asyncio.to_thread(look)

    assert {"penstock.v1.Publisher", "penstock.v1.Consumer", "penstock.v1.Admin"} <= set(services)
    assert methods == ["Publish", "PublishBatch", "PublishStream"]


async def test_at_the_end_streams_and_polls_end_and_leases_go_back() -> None:
    async with place() as api:
        await api.publish(b"x")
        stream = Conversation(api)
        await stream.open()
        await stream.receive()
        poll = asyncio.ensure_future(api.poll(wait_ms=60_000))
        await until(lambda: len(api.listener.shared.ends) == 2)

        async with asyncio.timeout(PATIENCE_S):
            await api.listener.drain()
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await stream.hear()

        assert list((await poll).leases) == []
        assert ended.value.code() == grpc.StatusCode.UNAVAILABLE
        assert info_of(ended.value).reason == "SHUTTING_DOWN"
        assert await api.in_flight() == 0


async def test_streams_on_which_nothing_arrives_do_not_hold_up_the_end() -> None:
    async with place() as api:
        publishing = api.publisher.PublishStream(timeout=PATIENCE_S)
        consuming = api.consumer.Consume(timeout=PATIENCE_S)
        await until(lambda: api.listener.shared.calls == 2)

        async with asyncio.timeout(PATIENCE_S / 2):
            await api.listener.drain()

        for ended in (publishing, consuming.read()):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await ended
            assert info_of(refused.value).reason == "SHUTTING_DOWN"


async def test_who_watches_the_health_does_not_hold_up_the_end() -> None:
    async with place() as api:
        watching = health_pb2_grpc.HealthStub(api.channel).Watch(health_pb2.HealthCheckRequest())
        await watching.read()

        async with asyncio.timeout(PATIENCE_S):
            await api.listener.drain()

        assert (await watching.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.mark.slow
def test_a_killed_client_gives_its_leases_back_and_a_stopped_server_keeps_messages(tmp_path: Path) -> None:
    program = """
import sys, time, grpc
from penstock.grpc import penstock_pb2 as pb
from penstock.grpc.penstock_pb2_grpc import ConsumerStub

def requests():
    yield pb.ConsumeRequest(id=1, open=pb.Open(topic="orders", group="g"))
    yield pb.ConsumeRequest(id=2, receive=pb.Receive(max_messages=1, wait_ms=60000))
    time.sleep(1000)

with grpc.insecure_channel(sys.argv[1]) as channel:
    for answer in ConsumerStub(channel).Consume(requests()):
        if answer.HasField("received"):
            print(answer.received.leases[0].attempt, flush=True)
"""
    with Process(tmp_path / "data", *OTHERS_OFF, "--grpc", "127.0.0.1:0") as server:
        address = f"127.0.0.1:{server.port('grpc')}"
        with grpc.insecure_channel(address) as channel:
            PublisherStub(channel).PublishBatch(pb.PublishBatchRequest(topic="orders", values=[b"x"]))
            client = subprocess.Popen(
                [sys.executable, "-c", program, address], stdout=subprocess.PIPE, text=True
            )
            assert client.stdout is not None
            first = client.stdout.readline()
            client.kill()
            client.communicate()
            poll = pb.PollRequest(topic="orders", group="g", wait_ms=20_000)
            [again] = ConsumerStub(channel).Poll(poll, timeout=PATIENCE_S).leases
            stats = AdminStub(channel).Stats(pb.Empty())
        code = server.stop()

    assert (first, again.attempt, stats.messages, code) == ("1\n", 2, 1, 0)


@pytest.mark.slow
def test_without_the_extra_the_error_says_what_to_install(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT, "serve", "--data", str(tmp_path), *OTHERS_OFF[:-2]]

    done = subprocess.run(
        [*command, "--kafka", "off", "--grpc", "127.0.0.1:0"],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip

    assert done.returncode == 1
    assert "gRPC is not installed; run: pip install 'penstock[grpc]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_without_the_extra_a_server_starts_and_says_nothing_of_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT, "serve", "--data", str(tmp_path), *OTHERS_OFF[2:]]
    with subprocess.Popen(
        [*command, "--native", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        lines = []
        while "ready\n" not in lines:
            lines.append(server.stdout.readline())
        server.send_signal(signal.SIGTERM)
        _, log = server.communicate(timeout=PATIENCE_S)

    assert "grpc" not in (log + "".join(lines)).lower()


@pytest.mark.slow
def test_a_wrong_setting_is_refused(tmp_path: Path) -> None:
    code, words = refused("--grpc", "nowhere", cwd=tmp_path)

    assert code != 0
    assert "listen.grpc" in words
