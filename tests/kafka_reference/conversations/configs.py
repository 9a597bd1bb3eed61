"""Settings of topics, brokers and groups; users, quotas and ACLs on a server without logins."""

import time
from typing import Any, Final

from tests.kafka_reference.talk import Talk, versions

TOPIC: Final = 2
BROKER: Final = 4
LOGGER: Final = 8
METRICS: Final = 16
GROUP: Final = 32
APPLIED_S: Final = 0.5  # Kafka's brokers learn of a change after it was answered.
SET, DELETE, APPEND, SUBTRACT = range(4)


def described(talk: Talk) -> None:
    talk.topic("described", retention_ms="1000")
    for version in versions("DescribeConfigs"):

        def ask(what: str, kind: int, name: str, version: int = version, **more: Any) -> None:
            keys = more.pop("keys", None)
            wanted = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}]
            talk.ask("DescribeConfigs", version, what, resources=wanted, **more)

        ask("of a topic", TOPIC, "described")
        ask("of two settings", TOPIC, "described", keys=["retention.ms", "cleanup.policy", "none"])
        ask("with synonyms", TOPIC, "described", keys=["retention.ms"], include_synonyms=True)
        ask("of no topic", TOPIC, "described-none")
        ask("of a bad name", TOPIC, "a b")
        ask("of no name", TOPIC, "")
        ask("of a group", GROUP, "described")
        ask("of no group", GROUP, "")
        ask("of the broker", BROKER, "0", keys=["log.dirs", "num.partitions", "node.id"])
        ask("of another broker", BROKER, "9")
        ask("of a bad broker", BROKER, "x")
        ask("of a bad kind", 77, "x")
        ask("of metrics", METRICS, "x")
        if version >= 3:
            ask("with texts", TOPIC, "described", keys=["retention.ms"], include_documentation=True)


def _changed(name: str, key: str, value: str | None, kind: int = TOPIC, **more: Any) -> list[dict[str, Any]]:
    configs = [{"name": key, "value": value, **more}]
    return [{"resource_type": kind, "resource_name": name, "configs": configs}]


def altered(talk: Talk) -> None:
    for version in versions("AlterConfigs"):
        name = f"altered-{version}"
        talk.topic(name)

        def ask(what: str, resources: list[dict[str, Any]], version: int = version, **more: Any) -> None:
            talk.ask("AlterConfigs", version, what, resources=resources, **more)

        ask("of a topic", _changed(name, "retention.ms", "5000"))
        _show(talk, name, "retention.ms")
        ask("only checked", _changed(name, "retention.ms", "6000"), validate_only=True)
        _show(talk, name, "retention.ms")
        ask("to an unknown one", _changed(name, "none", "1"))
        ask("to a bad value", _changed(name, "retention.ms", "x"))
        ask("to null", _changed(name, "retention.ms", None))
        ask("of no topic", _changed("altered-none", "retention.ms", "1"))
        ask("of a bad kind", _changed(name, "retention.ms", "1", kind=77))
        ask("of a group", _changed(name, "share.record.lock.duration.ms", "20000", kind=GROUP))
        if version == 2:  # Kafka gives no answer, and that takes a while.
            ask("twice at once", _changed(name, "retention.ms", "1") * 2)


def _show(talk: Talk, name: str, *keys: str, kind: int = TOPIC) -> None:
    wanted = [{"resource_type": kind, "resource_name": name, "configuration_keys": list(keys)}]
    time.sleep(APPLIED_S)
    talk.ask("DescribeConfigs", 4, "of what was changed", resources=wanted)


def incremental(talk: Talk) -> None:
    for version in versions("IncrementalAlterConfigs"):
        name = f"incremental-{version}"
        talk.topic(name)

        def ask(
            what: str,
            key: str,
            operation: int,
            value: str | None,
            version: int = version,
            topic: str = name,
            **more: Any,
        ) -> None:
            changed = _changed(
                more.pop("name", topic), key, value, more.pop("kind", TOPIC), config_operation=operation
            )
            talk.ask("IncrementalAlterConfigs", version, what, resources=changed, **more)

        ask("set", "retention.ms", SET, "5000")
        ask("set, only checked", "retention.ms", SET, "6000", validate_only=True)
        _show(talk, name, "retention.ms")
        ask("delete", "retention.ms", DELETE, None)
        _show(talk, name, "retention.ms")
        ask("append", "cleanup.policy", APPEND, "compact")
        _show(talk, name, "cleanup.policy")
        ask("subtract", "cleanup.policy", SUBTRACT, "delete")
        _show(talk, name, "cleanup.policy")
        ask("subtract the last", "cleanup.policy", SUBTRACT, "compact")
        ask("append to a number", "retention.ms", APPEND, "1")
        ask("unknown operation", "retention.ms", 9, "1")
        ask("unknown setting", "none", SET, "1")
        ask("bad value", "retention.ms", SET, "x")
        ask("bad policy", "cleanup.policy", SET, "x")
        ask("set to null", "retention.ms", SET, None)
        ask("no topic", "retention.ms", SET, "1", name="incremental-none")
        ask("below the least", "segment.bytes", SET, "1")
        ask("kind of timestamps", "message.timestamp.type", SET, "LogAppendTime")
        ask("two replicas in sync", "min.insync.replicas", SET, "2")
        ask("tiered storage", "remote.storage.enable", SET, "true")
        ask("group", "share.record.lock.duration.ms", SET, "20000", kind=GROUP)
        ask("group, too short", "share.record.lock.duration.ms", SET, "1", kind=GROUP)
        ask("group, unknown", "none", SET, "1", kind=GROUP)
        ask("group without a name", "share.record.lock.duration.ms", SET, "20000", kind=GROUP, name="")
        ask("broker", "log.cleaner.threads", SET, "1", kind=BROKER, name="0")
        _show(talk, name, "share.record.lock.duration.ms", kind=GROUP)


def resources(talk: Talk) -> None:
    wanted = _changed(
        "resources-group", "share.record.lock.duration.ms", "20000", GROUP, config_operation=SET
    )
    talk.settled("IncrementalAlterConfigs", 1, resources=wanted)
    talk.ask("ListConfigResources", 0, "of metrics")
    talk.ask("ListConfigResources", 1, "of brokers", resource_types=[BROKER])
    talk.ask("ListConfigResources", 1, "of a bad kind", resource_types=[77])


def quotas(talk: Talk) -> None:
    anna = [{"entity_type": "user", "entity_name": "anna"}]
    for version in versions("AlterClientQuotas"):

        def ask(
            what: str,
            entity: list[dict[str, Any]],
            key: str,
            value: float,
            version: int = version,
            **more: Any,
        ) -> None:
            entry = {
                "entity": entity,
                "ops": [{"key": key, "value": value, "remove": more.pop("remove", False)}],
            }
            talk.ask("AlterClientQuotas", version, what, entries=[entry], **more)

        ask("of an unknown user", anna, "producer_byte_rate", 1000.0)
        ask("of an unknown kind", anna, "none", 1.0)
        ask("of a negative rate", anna, "producer_byte_rate", -1.0)
        ask("of a bad entity", [{"entity_type": "x", "entity_name": "y"}], "producer_byte_rate", 1.0)
        ask("of a client", [{"entity_type": "client-id", "entity_name": "y"}], "producer_byte_rate", 1.0)
        ask("of nobody", [], "producer_byte_rate", 1.0)
        ask("removed", anna, "producer_byte_rate", 0.0, remove=True)
    for version in versions("DescribeClientQuotas"):
        one = [{"entity_type": "user", "match_type": 0, "match": "nobody"}]
        talk.ask("DescribeClientQuotas", version, "of a user", components=one)
        talk.ask(
            "DescribeClientQuotas", version, "of a bad entity", components=[one[0] | {"entity_type": "x"}]
        )
        talk.ask("DescribeClientQuotas", version, "of a bad match", components=[one[0] | {"match_type": 9}])


def acls(talk: Talk) -> None:
    for version in versions("DescribeAcls"):
        asked: dict[str, Any] = {
            "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
            "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
        }  # fmt: skip
        talk.ask("DescribeAcls", version, "of all", **asked)
        talk.ask("DeleteAcls", version, "of all", filters=[asked])
        made: dict[str, Any] = {
            "resource_type": 2, "resource_name": "orders", "resource_pattern_type": 3,
            "principal": "User:anna", "host": "*", "operation": 3, "permission_type": 3,
        }  # fmt: skip
        talk.ask("CreateAcls", version, "of one", creations=[made])


def scram(talk: Talk) -> None:
    talk.ask("DescribeUserScramCredentials", 0, "of nobody", users=[{"name": "nobody"}])
    talk.ask("DescribeUserScramCredentials", 0, "twice", users=[{"name": "nobody"}, {"name": "nobody"}])
    talk.ask("DescribeUserScramCredentials", 0, "without a name", users=[{"name": ""}])
    talk.ask(
        "AlterUserScramCredentials", 0, "that deletes nobody", deletions=[{"name": "nobody", "mechanism": 1}]
    )
    made: dict[str, Any] = {
        "name": "anna",
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": b"p" * 32,
    }
    talk.ask("AlterUserScramCredentials", 0, "with few iterations", upsertions=[made | {"iterations": 1}])
    talk.ask("AlterUserScramCredentials", 0, "with a bad mechanism", upsertions=[made | {"mechanism": 9}])
    talk.ask("AlterUserScramCredentials", 0, "without a name", upsertions=[made | {"name": ""}])
    talk.ask("AlterUserScramCredentials", 0, "twice", upsertions=[made, made])
    talk.ask("AlterUserScramCredentials", 0, "of a user", upsertions=[made])
    talk.ask("DescribeUserScramCredentials", 0, "of a user", users=[{"name": "anna"}])


CONVERSATIONS = (described, altered, incremental, resources, quotas, acls, scram)
