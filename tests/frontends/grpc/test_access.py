"""Who may call over gRPC: keys in metadata, permissions, quotas, revoked keys, TLS."""

from pathlib import Path

import grpc
import grpc.aio
import pytest
from tests.frontends.grpc.place import PATIENCE_S, Conversation, Place, info_of, place, until

from penstock.config.server import TlsSettings
from penstock.grpc import penstock_pb2 as pb
from penstock.grpc.penstock_pb2_grpc import AdminStub, PublisherStub
from penstock.model.access import Grant, Quota

FOLDER = Path(__file__).parents[2] / "data" / "tls"
TLS = TlsSettings(certificate=str(FOLDER / "certificate.pem"), key=str(FOLDER / "key.pem"))
PUBLISH = pb.PublishRequest(topic="orders", message=pb.Message(value=b"x"))

Metadata = tuple[tuple[str, str], ...]


async def key(api: Place, role: str, quota: Quota | None = None) -> tuple[str, Metadata]:
    """The id of a new key, and how it is shown."""
    made = await api.broker.create_key(role, [Grant(role=role)], quota=quota)  # type: ignore[arg-type]
    return made.id, (("authorization", f"Bearer {made.key}"),)


async def refusal(call: object) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call  # type: ignore[misc]
    return refused.value.code(), info_of(refused.value).reason


async def test_a_key_in_the_metadata_says_who_calls() -> None:
    async with place(authentication=True) as api:
        _, producer = await key(api, "producer")
        wrong = (("authorization", "Bearer pk_wrong_key"),)

        receipt = await api.publisher.Publish(PUBLISH, metadata=producer)

        assert receipt.offset == 0
        unauthenticated = (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")
        assert await refusal(api.publisher.Publish(PUBLISH)) == unauthenticated
        assert await refusal(api.publisher.Publish(PUBLISH, metadata=wrong)) == unauthenticated
        poll = pb.PollRequest(topic="orders", group="g")
        assert await refusal(api.consumer.Poll(poll, metadata=producer)) == (
            grpc.StatusCode.PERMISSION_DENIED,
            "FORBIDDEN",
        )


async def test_a_user_may_show_a_password() -> None:
    async with place(authentication=True) as api:
        await api.broker.set_user("anna", "secret-word", [Grant(role="producer")])
        basic = (("authorization", "Basic YW5uYTpzZWNyZXQtd29yZA=="),)

        assert (await api.publisher.Publish(PUBLISH, metadata=basic)).offset == 0


async def test_a_client_does_not_settle_what_another_one_holds() -> None:
    async with place(authentication=True) as api:
        _, one = await key(api, "consumer")
        _, two = await key(api, "consumer")
        await api.broker.publish("orders", b"x")
        poll = pb.PollRequest(topic="orders", group="g")
        [leased] = (await api.consumer.Poll(poll, metadata=one)).leases
        ack = pb.AckRequest(topic="orders", group="g", ack=pb.Settle(ranges=[leased.range]))

        [stolen] = (await api.consumer.Ack(ack, metadata=two)).errors
        own = (await api.consumer.Ack(ack, metadata=one)).errors

        assert (stolen.error.code, list(own)) == ("RECEIPT_UNKNOWN", [])


async def test_a_revoked_key_ends_its_streams_and_gives_leases_back() -> None:
    async with place(authentication=True) as api:
        identity, metadata = await key(api, "consumer")
        await api.broker.publish("orders", b"x")
        stream = Conversation(api, metadata=metadata)
        await stream.open()
        await stream.receive()
        await stream.send(receive=pb.Receive(wait_ms=600_000))

        await api.broker.revoke_key(identity)
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await stream.hear()

        assert ended.value.code() == grpc.StatusCode.UNAUTHENTICATED
        assert await api.in_flight() == 0


async def test_a_revoked_key_ends_a_poll() -> None:
    async with place(authentication=True) as api:
        identity, metadata = await key(api, "consumer")
        request = pb.PollRequest(topic="orders", group="g", wait_ms=60_000)
        poll = api.consumer.Poll(request, metadata=metadata, timeout=PATIENCE_S)
        await until(lambda: bool(api.listener.shared.ends))

        await api.broker.revoke_key(identity)

        assert await refusal(poll) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")


async def test_a_revoked_key_ends_a_stream_of_publishes() -> None:
    async with place(authentication=True) as api:
        identity, metadata = await key(api, "producer", Quota(connections=1))
        stream = api.publisher.PublishStream(metadata=metadata, timeout=PATIENCE_S)
        await stream.write(pb.PublishBatchRequest(topic="orders", values=[b"0"]))
        await until(lambda: bool(api.listener.shared.ends))

        second = api.publisher.PublishStream(iter(()), metadata=metadata, timeout=PATIENCE_S)
        assert await refusal(second) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED")
        await api.broker.revoke_key(identity)

        assert await refusal(stream) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")
        assert api.listener.shared.publish_bytes == 0


async def test_streams_count_as_connections_of_their_key() -> None:
    async with place(authentication=True) as api:
        _, metadata = await key(api, "consumer", Quota(connections=1))
        first = Conversation(api, metadata=metadata)
        await first.open()

        second = Conversation(api, metadata=metadata)
        with pytest.raises(grpc.aio.AioRpcError) as refused:  # Before it has sent anything.
            await second.hear()

        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert info_of(refused.value).reason == "QUOTA_EXCEEDED"


async def test_consumers_of_polls_are_limited_for_each_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.frontends.consumer_quota.OWN_CONSUMERS_MAX", 2)
    async with place(authentication=True) as api:
        _, one = await key(api, "consumer")
        _, two = await key(api, "consumer")
        polls = [pb.PollRequest(topic="orders", group="g", visibility_ms=1000 + each) for each in range(3)]
        wrong = pb.PollRequest(topic="missing", group="g")
        consumers = api.listener._consumers

        assert (await refusal(api.consumer.Poll(wrong, metadata=one)))[1] == "TOPIC_NOT_FOUND"
        for request in (*polls[:2], *polls[:2]):
            await api.consumer.Poll(request, metadata=one)
        too_many = await refusal(api.consumer.Poll(polls[2], metadata=one))
        await api.consumer.Poll(polls[2], metadata=two)
        consumers.sweep()
        consumers.sweep()
        left = dict(consumers.quota.counts)
        await api.consumer.Poll(polls[2], metadata=one)

        assert too_many == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED")
        assert left == {}


async def test_tls_uses_the_certificate_of_the_server() -> None:
    async with place(tls=TLS) as api:
        trusted = grpc.ssl_channel_credentials((FOLDER / "certificate.pem").read_bytes())
        async with grpc.aio.secure_channel(f"localhost:{api.port}", trusted) as channel:
            receipt = await PublisherStub(channel).Publish(PUBLISH, timeout=PATIENCE_S)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await AdminStub(api.channel).Stats(pb.Empty(), timeout=PATIENCE_S)

        assert receipt.offset == 0
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
