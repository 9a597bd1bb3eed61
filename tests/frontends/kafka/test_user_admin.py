"""Users by Kafka's admin clients: what they may do, how much, and their passwords."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from msgspec.structs import astuple
from tests.frontends.kafka.clients import publish
from tests.frontends.kafka.conftest import Server, serving
from tests.frontends.kafka.raw import Raw, versions
from tests.frontends.kafka.test_logins import PASSWORD, login

from penstock.api.aio import AsyncBroker
from penstock.errors import Forbidden, Unauthenticated
from penstock.frontends.kafka.authorized import NOT_ASKED
from penstock.frontends.security.identity import Credentials
from penstock.model.access import Grant, Quota
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages import transactions
from penstock.wire.kafka.messages.admin import acls, quotas, scram
from penstock.wire.kafka.messages.groups import group_admin
from penstock.wire.kafka.messages.groups import membership as groups

ANYTHING: Any = None  # Which its types do not know.
EVERYTHING = AclBindingFilter(
    ResourceType.ANY,
    ANYTHING,
    ResourcePatternType.ANY,
    ANYTHING,
    ANYTHING,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


@pytest.fixture
def guarded() -> Iterator[Server]:
    """A server that asks for logins: root may do everything, berta nothing but read logs."""
    for server in serving(authentication=True):

        async def furnish(server: Server = server) -> None:
            await server.broker.create_topic("orders")
            await server.broker.set_user("root", PASSWORD, [Grant(role="admin")])
            berta = [Grant(role="reader", topics=["logs"], groups=["none"])]
            await server.broker.set_user("berta", PASSWORD, berta)

        server.run(furnish())
        yield server


def admin(server: Server, user: str = "root") -> AdminClient:
    return AdminClient({"bootstrap.servers": server.address, **login(user=user)})


def binding(
    operation: AclOperation,
    principal: str = "User:berta",
    name: str = "orders",
    kind: ResourceType = ResourceType.TOPIC,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    host: str = "*",
) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, principal, host, operation, permission)


def create(client: AdminClient, *bindings: AclBinding) -> list[int]:
    codes = []
    for future in client.create_acls(list(bindings)).values():
        error = future.exception(timeout=10)
        codes.append(error.args[0].code() if error else 0)
    return codes


def told(client: AdminClient, principal: str | None = "User:berta") -> list[tuple[str, str]]:
    """Names and operations of the ACLs of a user."""
    found = client.describe_acls(EVERYTHING).result(timeout=10)
    return sorted((acl.name, acl.operation.name) for acl in found if acl.principal == principal)


def all_acls(principal: str | None = None) -> acls.DescribeAclsRequest:
    return acls.DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=principal,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def test_grants_are_told_as_acls(guarded: Server) -> None:
    made = guarded.run(guarded.broker.create_key("loader", [Grant(role="producer", topics=["or*"])]))
    client = admin(guarded)

    assert told(client) == [("logs", "READ"), ("none", "DESCRIBE")]
    assert told(client, f"Key:{made.id}") == [("*", "DESCRIBE"), ("or", "WRITE")]


def test_super_users_are_not_listed_among_the_acls(guarded: Server) -> None:
    client = admin(guarded)

    found = client.describe_acls(EVERYTHING).result(timeout=10)
    assert {acl.principal for acl in found} == {"User:berta"}


def test_a_user_who_is_given_an_acl_may_do_that_until_it_is_taken_away(guarded: Server) -> None:
    client = admin(guarded)

    assert create(client, binding(AclOperation.WRITE), binding(AclOperation.DESCRIBE)) == [0, 0]

    publish(guarded, [b"a"], settings=login(user="berta"))
    assert told(client) == [
        ("logs", "READ"), ("none", "DESCRIBE"), ("orders", "DESCRIBE"), ("orders", "WRITE"),
    ]  # fmt: skip
    mine = AclBindingFilter(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.MATCH,
        "User:berta",
        ANYTHING,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    [deleted] = client.delete_acls([mine]).values()
    assert {acl.operation for acl in deleted.result(timeout=10)} == {
        AclOperation.WRITE,
        AclOperation.DESCRIBE,
    }
    assert told(client) == [("logs", "READ"), ("none", "DESCRIBE")]
    errors: list[KafkaError | None] = []
    writer = Producer({"bootstrap.servers": guarded.address, **login(user="berta")})
    writer.produce("orders", b"b", on_delivery=lambda error, _: errors.append(error))
    writer.flush(10)
    assert [error and error.code() for error in errors] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


def test_acls_that_cannot_be_are_refused_one_by_one(guarded: Server) -> None:
    client = admin(guarded)

    codes = create(
        client,
        binding(AclOperation.READ, host="10.0.0.1"),
        binding(AclOperation.CREATE, kind=ResourceType.GROUP),
        binding(AclOperation.READ, principal="Group:others"),
        binding(AclOperation.ALTER, kind=ResourceType.BROKER, name="another-cluster"),
        binding(AclOperation.READ, name="invoices"),
    )

    assert codes == [KafkaError.INVALID_REQUEST] * 4 + [0]
    assert told(client) == [("invoices", "READ"), ("logs", "READ"), ("none", "DESCRIBE")]


def publish_error(server: Server, user: str, topic: str = "orders", **settings: Any) -> int | None:
    """The code with which a publish is refused."""
    errors: list[KafkaError | None] = []
    writer = Producer({"bootstrap.servers": server.address, **login(user=user), **settings})
    writer.produce(topic, b"b", on_delivery=lambda error, _: errors.append(error))
    writer.flush(10)
    [error] = errors
    return None if error is None else error.code()


def broker_of(server: Server, user: str) -> AsyncBroker:
    """What the other protocols give a user."""
    gateway = server.listener.shared.gateway
    identity = server.run(gateway.login(Credentials(user=user, password=PASSWORD), "127.0.0.1"))
    return gateway.broker(identity)


def test_a_denied_operation_is_refused_although_a_grant_allows_it(guarded: Server) -> None:
    allowed = [Grant(role="producer"), Grant(role="consumer")]
    guarded.run(guarded.broker.set_user("berta", PASSWORD, allowed))
    client = admin(guarded)

    assert create(client, binding(AclOperation.WRITE, permission=AclPermissionType.DENY)) == [0]

    assert publish_error(guarded, "berta") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    found = client.describe_acls(EVERYTHING).result(timeout=10)
    assert AclPermissionType.DENY in {acl.permission_type for acl in found}
    berta = broker_of(guarded, "berta")  # Enforced in every protocol, and nothing else is denied.
    assert guarded.run(berta.read("orders")) == []
    with pytest.raises(Forbidden):
        guarded.run(berta.publish("orders", b"a"))
    # Nobody can lock out an admin of all topics, as Kafka's super users.
    assert create(client, binding(AclOperation.ALL, "User:*", permission=AclPermissionType.DENY)) == [0]
    assert publish_error(guarded, "root") is None


def test_the_coordinator_is_for_those_who_may_describe_the_group(guarded: Server) -> None:
    allowed = [Grant(role="producer", groups=["billing"]), Grant(role="consumer", groups=["billing"])]
    guarded.run(guarded.broker.set_user("berta", PASSWORD, allowed))

    def find(user: str, kind: int, key: str) -> int:
        with Raw(guarded) as raw:
            raw.login(user, PASSWORD)
            codes = set()
            for version in versions(groups.FindCoordinatorRequest):
                asked = groups.FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
                answer = raw.ask(asked, groups.FindCoordinatorResponse, version)
                found = answer.coordinators[0] if version >= 4 else answer
                assert not version or found.error_message is None
                if version or kind == 0:  # Before version 1 all keys were groups.
                    codes.add(found.error_code)
        [code] = codes
        return code

    assert find("berta", 0, "billing") == find("berta", 1, "payments") == Code.NONE
    assert find("berta", 0, "audit") == Code.GROUP_AUTHORIZATION_FAILED
    denied = [
        binding(AclOperation.DESCRIBE, name=name, kind=kind, permission=AclPermissionType.DENY)
        for name, kind in (("billing", ResourceType.GROUP), ("payments", ResourceType.TRANSACTIONAL_ID))
    ]
    assert create(admin(guarded), *denied) == [0, 0]

    assert find("berta", 0, "billing") == Code.GROUP_AUTHORIZATION_FAILED
    assert find("berta", 1, "payments") == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert find("root", 0, "billing") == find("root", 1, "payments") == Code.NONE


def test_a_transaction_commits_only_for_groups_that_its_producer_may_read(guarded: Server) -> None:
    allowed = [Grant(role="producer"), Grant(role="consumer")]
    guarded.run(guarded.broker.set_user("berta", PASSWORD, allowed))
    denied = binding(
        AclOperation.READ, name="billing", kind=ResourceType.GROUP, permission=AclPermissionType.DENY
    )
    assert create(admin(guarded), denied) == [0]

    with Raw(guarded) as raw:
        raw.login("berta", PASSWORD)
        added = transactions.AddOffsetsToTxnRequest(transactional_id="t", group_id="billing")
        for version in versions(transactions.AddOffsetsToTxnRequest):
            answer = raw.ask(added, transactions.AddOffsetsToTxnResponse, version)
            assert answer.error_code == Code.GROUP_AUTHORIZATION_FAILED
        orders = transactions.TxnOffsetCommitRequestTopic(
            name="orders", partitions=[transactions.TxnOffsetCommitRequestPartition(partition_index=0)]
        )
        commits = transactions.TxnOffsetCommitRequest(
            transactional_id="t", group_id="billing", topics=[orders]
        )
        for version in versions(transactions.TxnOffsetCommitRequest):
            [topic] = raw.ask(commits, transactions.TxnOffsetCommitResponse, version).topics
            assert [part.error_code for part in topic.partitions] == [Code.GROUP_AUTHORIZATION_FAILED]


def test_acls_may_be_there_before_the_user_is(guarded: Server) -> None:
    client = admin(guarded)

    assert create(client, binding(AclOperation.WRITE, principal="User:carl")) == [0]
    assert altered(client, upsertion()) == [0]

    publish(guarded, [b"a"], settings=login("SCRAM-SHA-256", "carl", "of carl himself"))


def test_an_acl_for_every_user_counts_for_keys_too(guarded: Server) -> None:
    made = guarded.run(guarded.broker.create_key("loader", [Grant(role="reader", topics=["logs"])]))
    assert create(admin(guarded), binding(AclOperation.WRITE, principal="User:*")) == [0]

    assert publish_error(guarded, "berta") is None
    assert publish_error(guarded, "any", **login(user="any", password=made.key)) is None


def test_the_cluster_and_single_operations_are_resources_of_their_own(guarded: Server) -> None:
    client = admin(guarded)
    cluster: dict[str, Any] = {"kind": ResourceType.BROKER, "name": "kafka-cluster"}
    assert create(client, binding(AclOperation.CREATE, **cluster), binding(AclOperation.DELETE)) == [0, 0]

    berta = admin(guarded, "berta")
    [created] = berta.create_topics([NewTopic("invoices", 1)]).values()
    assert created.exception(timeout=10) is None
    [deleted] = berta.delete_topics(["orders"]).values()
    assert deleted.exception(timeout=10) is None
    [refused] = berta.delete_topics(["invoices"]).values()
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        refused.result(timeout=10)
    assert create(berta, binding(AclOperation.ALL)) == [KafkaError.CLUSTER_AUTHORIZATION_FAILED]

    assert create(client, binding(AclOperation.ALTER, **cluster)) == [0]
    assert create(admin(guarded, "berta"), binding(AclOperation.ALL)) == [0]


def test_transactional_ids_are_given_and_denied_by_acls(guarded: Server) -> None:
    client = admin(guarded)
    of_id: dict[str, Any] = {"kind": ResourceType.TRANSACTIONAL_ID, "name": "payments"}
    allow = [Grant(role="producer", topics=["orders"])]
    for user in ("anna", "berta"):
        guarded.run(guarded.broker.set_user(user, PASSWORD, allow))

    def begin(user: str) -> int:
        settings = {"transactional.id": "payments", **login(user=user)}
        producer = Producer({"bootstrap.servers": guarded.address, **settings})
        try:
            producer.init_transactions(10)
        except KafkaException as error:
            code: int = error.args[0].code()
            return code
        return 0

    assert begin("anna") == 0  # Whoever uses it first has it.
    assert begin("berta") == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert create(client, binding(AclOperation.WRITE, **of_id)) == [0]
    assert begin("berta") == 0
    denied = binding(AclOperation.WRITE, "User:anna", permission=AclPermissionType.DENY, **of_id)
    assert create(client, denied) == [0]
    assert begin("anna") == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_grant_is_not_taken_away_by_acls(guarded: Server) -> None:
    with Raw(guarded) as raw:
        raw.login("root", PASSWORD)
        wanted = acls.DeleteAclsFilter(*astuple(all_acls("User:berta")))
        asked = acls.DeleteAclsRequest(filters=[wanted])
        for version in versions(acls.DeleteAclsRequest):
            [result] = raw.ask(asked, acls.DeleteAclsResponse, version).filter_results

            assert [each.error_code for each in result.matching_acls] == [Code.INVALID_REQUEST] * 2
    assert told(admin(guarded)) == [("logs", "READ"), ("none", "DESCRIBE")]


def test_only_admins_look_at_users_and_change_them(guarded: Server) -> None:
    client = admin(guarded, "berta")

    assert create(client, binding(AclOperation.ALL)) == [KafkaError.CLUSTER_AUTHORIZATION_FAILED]
    with Raw(guarded) as raw:  # Confluent's client does not look at these errors.
        raw.login("berta", PASSWORD)
        for request, response in (
            (all_acls(), acls.DescribeAclsResponse),
            (scram.DescribeUserScramCredentialsRequest(), scram.DescribeUserScramCredentialsResponse),
            (quotas.DescribeClientQuotasRequest(), quotas.DescribeClientQuotasResponse),
        ):
            answer: Any = raw.ask(request, response, request.VERSIONS[1])
            assert answer.error_code == Code.CLUSTER_AUTHORIZATION_FAILED


def test_without_logins_there_are_no_acls(kafka: Server) -> None:
    client = AdminClient({"bootstrap.servers": kafka.address})

    assert create(client, binding(AclOperation.READ)) == [KafkaError.SECURITY_DISABLED]
    [deleted] = client.delete_acls([EVERYTHING]).values()
    with pytest.raises(KafkaException) as refused:
        deleted.result(timeout=10)
    assert refused.value.args[0].code() == KafkaError.SECURITY_DISABLED
    with Raw(kafka) as raw:
        for version in versions(acls.DescribeAclsRequest):
            answer = raw.ask(all_acls(), acls.DescribeAclsResponse, version)
            assert answer.error_code == Code.SECURITY_DISABLED


def test_who_asks_is_told_what_it_may_do(guarded: Server) -> None:
    """The fixture's berta reads logs; here she may also write to orders."""
    guarded.run(guarded.broker.create_topic("logs"))
    may_write = [Grant(role="reader", topics=["logs"]), Grant(role="producer", topics=["orders"])]
    guarded.run(guarded.broker.set_user("berta", PASSWORD, may_write))

    def told(user: str, topic: str) -> set[str]:
        client = admin(guarded, user)
        topics = TopicCollection([topic])
        asked: Any = client.describe_topics(topics, include_authorized_operations=True)
        return {operation.name for operation in asked[topic].result(timeout=10).authorized_operations}

    looking = {"DESCRIBE", "DESCRIBE_CONFIGS"}
    assert told("berta", "logs") == {*looking, "READ"}
    assert told("berta", "orders") == {*looking, "WRITE"}
    assert told("root", "orders") == {
        *looking, "READ", "WRITE", "CREATE", "DELETE", "ALTER", "ALTER_CONFIGS",
    }  # fmt: skip
    client = admin(guarded)
    cluster = client.describe_cluster(include_authorized_operations=True).result(timeout=10)
    assert AclOperation.ALTER in cluster.authorized_operations


@pytest.mark.parametrize("version", [2, 3, 6])
def test_who_does_not_ask_is_not_told(kafka: Server, version: int) -> None:
    kafka.run(kafka.broker.create_topic("orders"))
    kafka.run(kafka.broker.create_group("orders", "billing", kind="stream"))
    with Raw(kafka) as raw:
        asked = group_admin.DescribeGroupsRequest(groups=["billing"])
        [group] = raw.ask(asked, group_admin.DescribeGroupsResponse, version).groups
        assert group.authorized_operations == NOT_ASKED
        if version > 2:
            asked.include_authorized_operations = True
            [group] = raw.ask(asked, group_admin.DescribeGroupsResponse, version).groups
            assert group.authorized_operations == sum(1 << number for number in (3, 6, 8, 10, 11))


def test_what_admins_do_to_users_is_in_the_audit_log(tmp_path: Path) -> None:
    for server in serving(str(tmp_path), authentication=True):
        server.run(server.broker.set_user("root", PASSWORD, [Grant(role="admin")]))
        server.run(server.broker.set_user("berta", PASSWORD, [Grant(role="reader")]))
        assert create(admin(server), binding(AclOperation.WRITE)) == [0]

    assert "create_acls" in (tmp_path / "audit.log").read_text()


# Passwords.


def upsertion(
    user: str = "carl", iterations: int = 4096, password: bytes = b"of carl himself"
) -> UserScramCredentialUpsertion:
    return UserScramCredentialUpsertion(
        user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, iterations), password
    )


def known(client: AdminClient, user: str) -> Any:
    asked: Any = client.describe_user_scram_credentials([user])
    return asked[user].result(timeout=10)


def altered(client: AdminClient, *changes: Any) -> list[int]:
    codes = []
    for future in client.alter_user_scram_credentials(list(changes)).values():
        error = future.exception(timeout=10)
        codes.append(error.args[0].code() if error else 0)
    return codes


def test_a_user_made_by_an_admin_client_logs_in_and_may_do_what_it_is_given(guarded: Server) -> None:
    client = admin(guarded)

    assert altered(client, upsertion()) == [0]
    assert create(client, binding(AclOperation.WRITE, principal="User:carl")) == [0]

    publish(guarded, [b"a"], settings=login("SCRAM-SHA-256", "carl", "of carl himself"))
    publish(guarded, [b"a"], settings=login("PLAIN", "carl", "of carl himself"))
    infos = known(client, "carl").scram_credential_infos
    assert [(info.mechanism, info.iterations) for info in infos] == [(ScramMechanism.SCRAM_SHA_256, 4096)]


def test_a_password_that_is_changed_by_scram_is_changed_everywhere_else(guarded: Server) -> None:
    async def opens(password: str) -> bool:
        told = Credentials(user="berta", password=password)
        try:
            return (await guarded.listener.shared.gateway.login(told, "127.0.0.1")).name == "berta"
        except Unauthenticated:
            return False

    client = admin(guarded)
    both = UserScramCredentialUpsertion(
        "berta", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"another password"
    )

    assert altered(client, upsertion("berta", password=b"another password"), both) == [0]

    assert guarded.run(opens("another password"))
    assert not guarded.run(opens(PASSWORD))


def test_a_user_without_a_password_and_grants_is_gone(guarded: Server) -> None:
    client = admin(guarded)
    assert altered(client, upsertion()) == [0]
    gone = UserScramCredentialDeletion("carl", ScramMechanism.SCRAM_SHA_256)

    assert altered(client, gone) == [0]

    assert altered(client, gone) == [Code.RESOURCE_NOT_FOUND]
    assert [user.name for user in guarded.run(guarded.broker.users())] == ["berta", "root"]
    with pytest.raises(KafkaException) as refused:
        known(client, "carl")
    assert refused.value.args[0].code() == Code.RESOURCE_NOT_FOUND


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"iterations": 1000}, Code.UNACCEPTABLE_CREDENTIAL),
        ({"iterations": 100_000}, Code.UNACCEPTABLE_CREDENTIAL),
        ({"salted_password": b"short"}, Code.UNACCEPTABLE_CREDENTIAL),
        ({"name": "no name"}, Code.UNACCEPTABLE_CREDENTIAL),
        ({"mechanism": 3}, Code.UNSUPPORTED_SASL_MECHANISM),
    ],
)
def test_a_password_that_cannot_be_is_refused(
    kafka: Server, change: dict[str, int | bytes | str], code: Code
) -> None:
    usual = {"name": "carl", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": bytes(32)}
    made = scram.ScramCredentialUpsertion(**{**usual, **change})  # type: ignore[arg-type]
    with Raw(kafka) as raw:
        asked = scram.AlterUserScramCredentialsRequest(upsertions=[made])
        [result] = raw.ask(asked, scram.AlterUserScramCredentialsResponse, 0).results

    assert result.error_code == code
    assert kafka.run(kafka.broker.users()) == []


# Quotas.


def alter_quota(
    raw: Raw, user: str, value: float | None, *, kind: str = "user", key: str = "producer_byte_rate"
) -> int:
    change = quotas.QuotaOperation(key, value or 0, value is None)
    entry = quotas.QuotaAlteration([quotas.QuotaEntity(kind, user)], [change])
    asked = quotas.AlterClientQuotasRequest(entries=[entry])
    return raw.ask(asked, quotas.AlterClientQuotasResponse, 1).entries[0].error_code


def test_a_users_quota_of_bytes_is_one_of_kafkas(kafka: Server) -> None:
    kafka.run(kafka.broker.set_user("anna", PASSWORD, [Grant(role="reader")], quota=Quota(connections=3)))
    kafka.run(kafka.broker.set_user("carl", PASSWORD, [Grant(role="reader")]))

    def listed(version: int = 1, strict: bool = False, *parts: tuple[str, int, str | None]) -> object:
        components = [quotas.QuotaComponent(*part) for part in parts]
        asked = quotas.DescribeClientQuotasRequest(components=components, strict=strict)
        answer = raw.ask(asked, quotas.DescribeClientQuotasResponse, version)
        entries = [] if answer.entries is None else answer.entries
        return answer.error_code or [(each.entity[0].entity_name, each.values[0].value) for each in entries]

    with Raw(kafka) as raw:
        assert alter_quota(raw, "anna", 5000) == 0

        [anna, _] = kafka.run(kafka.broker.users())
        assert (anna.quota.bytes_per_second, anna.quota.connections) == (5000, 3)
        assert listed(0) == listed() == [("anna", 5000.0)]
        assert listed(1, False, ("user", 0, "anna")) == [("anna", 5000.0)]
        assert listed(1, True, ("user", 2, None)) == [("anna", 5000.0)]
        assert listed(1, False, ("user", 0, "carl")) == listed(1, False, ("user", 1, None)) == []
        assert listed(1, False, ("client-id", 2, None)) == []
        assert listed(1, False, ("planet", 2, None)) == Code.INVALID_REQUEST
        assert alter_quota(raw, "anna", None) == 0
        assert listed() == []


def test_quotas_that_are_not_ours_are_refused(kafka: Server) -> None:
    kafka.run(kafka.broker.set_user("anna", PASSWORD, [Grant(role="reader")]))
    with Raw(kafka) as raw:
        assert alter_quota(raw, "nobody", 5000) == Code.RESOURCE_NOT_FOUND
        assert alter_quota(raw, "anna", 5000, kind="client-id") == Code.INVALID_REQUEST
        assert alter_quota(raw, "anna", 5000, key="consumer_byte_rate") == Code.INVALID_REQUEST
        assert alter_quota(raw, "anna", 0.5) == Code.INVALID_REQUEST
