"""Who a client is, and what it may do: SASL with confluent-kafka."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.frontends.kafka.clients import Settings, publish, reader, receive, values
from tests.frontends.kafka.conftest import Server, serving
from tests.frontends.kafka.raw import Raw

from penstock.config.server import TlsSettings
from penstock.frontends.security.tls import server_context
from penstock.model.access import Grant
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.admin import transaction_admin
from penstock.wire.kafka.messages.parts import NamePartitionIndexes

PASSWORD = "correct horse"
TOPICS = ("orders", "secrets")
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture
def guarded() -> Iterator[Server]:
    """A server that asks for logins, with the user anna, who may do everything with orders."""
    for server in serving(authentication=True):

        async def furnish(server: Server = server) -> None:
            await server.broker.create_topic("orders")
            await server.broker.create_topic("secrets")
            await server.broker.set_user("anna", PASSWORD, [Grant(role="admin", topics=["orders"])])

        server.run(furnish())
        yield server


def login(mechanism: str = "PLAIN", user: str = "anna", password: str = PASSWORD) -> Settings:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_logs_in(guarded: Server, mechanism: str) -> None:
    publish(guarded, [b"a"], settings=login(mechanism))

    consumer = reader(guarded, settings=login(mechanism))
    assert values(receive(consumer, 1)) == [b"a"]
    consumer.close()


def test_an_api_key_is_a_password_for_any_name(guarded: Server) -> None:
    made = guarded.run(guarded.broker.create_key("loader", [Grant(role="producer")]))

    publish(guarded, [b"a"], settings=login(user="whoever", password=made.key))


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("anna", "wrong password"), ("nobody", PASSWORD)])
def test_a_wrong_password_is_refused_and_does_not_become_a_storm(
    guarded: Server, mechanism: str, user: str, password: str
) -> None:
    errors: list[KafkaError] = []
    settings = {
        **login(mechanism, user, password),
        "error_cb": errors.append,
        "reconnect.backoff.max.ms": 100,
    }
    made = Producer({"bootstrap.servers": guarded.address, **settings})

    with pytest.raises(KafkaException):
        made.list_topics(timeout=1.2)
    made.poll(0)

    refused = [error for error in errors if error.code() == KafkaError._AUTHENTICATION]
    assert 1 <= len(refused) <= 4
    assert guarded.listener.shared.publish_bytes == 0


@pytest.mark.slow
def test_a_mechanism_that_is_not_there_is_refused(guarded: Server) -> None:
    errors: list[KafkaError] = []
    settings = {
        **login("OAUTHBEARER"),
        "error_cb": errors.append,
        "enable.sasl.oauthbearer.unsecure.jwt": True,
        "sasl.oauthbearer.config": "principal=anna",
    }
    made = Producer({"bootstrap.servers": guarded.address, **settings})

    with pytest.raises(KafkaException):
        made.list_topics(timeout=1)
    made.poll(0)

    assert any("OAUTHBEARER" in error.str() for error in errors)


@pytest.mark.slow
def test_who_does_not_log_in_gets_nothing(guarded: Server) -> None:
    made = Producer({"bootstrap.servers": guarded.address})

    with pytest.raises(KafkaException):
        made.list_topics(timeout=1)


def test_what_a_user_may_not_do_is_refused(guarded: Server) -> None:
    told: list[KafkaError | None] = []
    made = Producer({"bootstrap.servers": guarded.address, **login()})
    made.produce("secrets", b"x", on_delivery=lambda error, it: told.append(error))
    made.flush(5)
    admin = AdminClient({"bootstrap.servers": guarded.address, **login()})

    [created] = admin.create_topics([NewTopic("mine", 1, 1)]).values()
    with pytest.raises(KafkaException) as refused:
        created.result(5)

    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert [error and error.code() for error in told] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    assert "secrets" not in made.list_topics(timeout=5).topics


@pytest.mark.slow
def test_a_user_who_is_deleted_is_cut_off(guarded: Server) -> None:
    errors: list[KafkaError] = []
    publish(guarded, [b"a"], settings=login())
    consumer = reader(guarded, settings={**login(), "error_cb": errors.append})
    receive(consumer, 1)

    guarded.run(guarded.broker.delete_user("anna"))
    for _ in range(100):
        if KafkaError._AUTHENTICATION in [error.code() for error in errors]:
            break
        consumer.poll(0.1)
    consumer.close()

    assert KafkaError._AUTHENTICATION in [error.code() for error in errors]


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_a_connection_is_encrypted(protocol: str) -> None:
    folder = Path(__file__).parents[2] / "data" / "tls"
    certificate = str(folder / "certificate.pem")
    tls = server_context(TlsSettings(certificate=certificate, key=str(folder / "key.pem")))
    settings = {**login("SCRAM-SHA-512"), "security.protocol": protocol, "ssl.ca.location": certificate}

    for server in serving(authentication=protocol == "SASL_SSL", tls=tls):
        server.run(server.broker.set_user("anna", PASSWORD, [Grant(role="admin")]))
        publish(server, [b"a" * 300_000] * 5, settings=settings)
        consumer = reader(server, settings=settings)
        assert values(receive(consumer, 5)) == [b"a" * 300_000] * 5
        consumer.close()


def test_a_transaction_needs_the_right_to_each_of_its_topics(guarded: Server) -> None:
    made = Producer(
        {"bootstrap.servers": guarded.address, "transactional.id": "t", "log_level": 0, **login()}
    )
    made.init_transactions(20)
    made.begin_transaction()
    made.produce("orders", b"a")
    made.produce("secrets", b"b", partition=0)

    with pytest.raises(KafkaException) as failure:
        made.commit_transaction(20)
    made.abort_transaction(20)

    assert failure.value.args[0].txn_requires_abort()
    assert guarded.run(guarded.broker.read("orders")) == []


def test_who_may_only_read_gets_no_producer_id(guarded: Server) -> None:
    guarded.run(guarded.broker.set_user("bert", PASSWORD, [Grant(role="reader")]))
    made = Producer(
        {"bootstrap.servers": guarded.address, "transactional.id": "t", "log_level": 0, **login(user="bert")}
    )

    with pytest.raises(KafkaException) as failure:
        made.init_transactions(20)

    assert failure.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.slow
def test_a_transactional_id_is_its_owners(guarded: Server) -> None:
    """Another user is refused and disturbs nothing; who was granted the id by name takes it."""

    async def furnish() -> None:
        for user, grant in {
            "ben": Grant(role="producer", topics=["orders"]),
            "carl": Grant(role="producer", topics=["orders"]),
            "dora": Grant(role="producer", topics=["orders"], groups=["pay*"]),
        }.items():
            await guarded.broker.set_user(user, PASSWORD, [grant])

    guarded.run(furnish())
    owner = transactional(guarded, "ben")
    owner.begin_transaction()
    owner.produce("orders", b"mine")
    owner.flush(10)

    with pytest.raises(KafkaException) as refused:
        transactional(guarded, "carl")
    owner.commit_transaction(10)
    transactional(guarded, "dora")

    error = refused.value.args[0]
    assert error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    with pytest.raises(KafkaException) as fenced:
        transactional(guarded, "ben")
    assert fenced.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def transactional(server: Server, user: str) -> Producer:
    made = Producer({"bootstrap.servers": server.address, "transactional.id": "payments", **login(user=user)})
    made.init_transactions(10)
    return made


def listed(server: Server, user: str) -> tuple[list[str], list[int]]:
    """The transactional ids that a user is shown, and the errors of asking for each of them."""
    with Raw(server) as raw:
        raw.login(user, PASSWORD)
        all_of_them = transaction_admin.ListTransactionsRequest()
        found = raw.ask(all_of_them, transaction_admin.ListTransactionsResponse, 2).transaction_states
        asked = transaction_admin.DescribeTransactionsRequest(transactional_ids=["payments"])
        told = raw.ask(asked, transaction_admin.DescribeTransactionsResponse, 0).transaction_states
    return [it.transactional_id for it in found], [it.error_code for it in told]


def test_a_transactional_id_is_shown_to_whoever_may_use_it(guarded: Server) -> None:
    async def furnish() -> None:
        broker = guarded.broker
        await broker.set_user("ben", PASSWORD, [Grant(role="producer", topics=["orders"])])
        await broker.set_user("carl", PASSWORD, [Grant(role="producer", topics=["orders"])])
        await broker.set_user("dora", PASSWORD, [Grant(role="producer", topics=["*"], groups=["pay*"])])
        await broker.set_user("emil", PASSWORD, [Grant(role="reader", topics=["*"])])
        await broker.set_user("root", PASSWORD, [Grant(role="admin")])

    guarded.run(furnish())
    transactional(guarded, "ben")

    for user in ("ben", "dora", "root"):
        assert listed(guarded, user) == (["payments"], [0])
    for user in ("carl", "emil"):
        assert listed(guarded, user) == ([], [Code.TRANSACTIONAL_ID_NOT_FOUND])


def test_the_producers_of_a_partition_are_shown_to_whoever_may_read_it(guarded: Server) -> None:
    topics = [NamePartitionIndexes(name=name, partition_indexes=[0]) for name in TOPICS]
    with Raw(guarded) as raw:
        raw.login("anna", PASSWORD)
        asked = transaction_admin.DescribeProducersRequest(topics=topics)
        told = raw.ask(asked, transaction_admin.DescribeProducersResponse, 0).topics

    assert [it.partitions[0].error_code for it in told] == [0, Code.TOPIC_AUTHORIZATION_FAILED]
