"""What a client asks first, what it may not send, and what there is of brokers."""

import struct
from typing import Any

from tests.kafka_reference.talk import BY_NAME, CLIENT, Talk, versions


def api_versions(talk: Talk) -> None:
    for version in versions("ApiVersions"):
        software = {"client_software_name": "reference", "client_software_version": "1"}
        talk.ask("ApiVersions", version, "of a client", **software)
    for version in (3, 4):
        software = {"client_software_name": "a b", "client_software_version": ""}
        talk.ask("ApiVersions", version, "with a bad name", **software)


def metadata(talk: Talk) -> None:
    made = talk.topic("metadata-a", 3)
    talk.topic("metadata-b")
    for version in versions("Metadata"):
        named = [{"name": "metadata-a"}, {"name": "metadata-b"}]
        talk.ask("Metadata", version, "of two topics", topics=named)
        talk.ask("Metadata", version, "of a bad name", topics=[{"name": "a b"}])
        talk.ask("Metadata", version, "of no topics", topics=[] if version else [{"name": "metadata-b"}])
        if version >= 4:
            absent = [{"name": "metadata-none"}]
            talk.ask("Metadata", version, "of none", topics=absent, allow_auto_topic_creation=False)
            talk.ask(
                "Metadata",
                version,
                "twice the same",
                topics=[*named, named[0]],
                allow_auto_topic_creation=False,
            )
        if version >= 8:
            asked: dict[str, Any] = {"topics": named, "include_topic_authorized_operations": True}
            if version <= 10:
                asked["include_cluster_authorized_operations"] = True
            talk.ask("Metadata", version, "with operations", **asked)
        if version >= 10:
            talk.ask("Metadata", version, "by id", topics=[{"topic_id": made, "name": None}])
            talk.ask("Metadata", version, "by no id", topics=[{"topic_id": b"x" * 16, "name": None}])
            talk.ask("Metadata", version, "by id and name", topics=[{"topic_id": made, "name": "metadata-a"}])
    talk.ask("Metadata", 1, "that creates", topics=[{"name": "metadata-auto"}])
    talk.known("metadata-auto")
    talk.ask("Metadata", 12, "that has created", topics=[{"name": "metadata-auto"}])


def partitions_described(talk: Talk) -> None:
    talk.topic("described-a", 3)
    talk.topic("described-b", 3)
    both = [{"name": "described-a"}, {"name": "described-b"}]
    ask = "DescribeTopicPartitions"
    talk.ask(ask, 0, "of two topics", topics=both)
    talk.ask(ask, 0, "four at most", topics=both, response_partition_limit=4)
    talk.ask(ask, 0, "from a cursor", topics=both, cursor={"topic_name": "described-b", "partition_index": 1})
    talk.ask(
        ask, 0, "from a bad cursor", topics=both, cursor={"topic_name": "described-b", "partition_index": -1}
    )
    talk.ask(ask, 0, "of none", topics=[{"name": "described-none"}])
    talk.ask(ask, 0, "of a bad name", topics=[{"name": "a b"}])
    talk.ask(ask, 0, "none at most", topics=both, response_partition_limit=0)


def brokers(talk: Talk) -> None:
    for version in versions("DescribeCluster"):
        talk.ask("DescribeCluster", version, "as it is")
        talk.ask("DescribeCluster", version, "with operations", include_cluster_authorized_operations=True)
    talk.ask("DescribeCluster", 1, "of controllers", endpoint_type=2)
    talk.ask("DescribeCluster", 1, "of bad endpoints", endpoint_type=9)
    for version in versions("DescribeQuorum"):
        own = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        talk.ask("DescribeQuorum", version, "of the metadata", topics=own)
        other = [{"topic_name": "brokers-none", "partitions": [{"partition_index": 0}]}]
        talk.ask("DescribeQuorum", version, "of another topic", topics=other)
    for version in versions("ListPartitionReassignments"):
        talk.ask("ListPartitionReassignments", version, "of all", topics=None)


def logins(talk: Talk) -> None:
    """On a listener that has none."""
    for version in versions("SaslHandshake"):
        talk.ask("SaslHandshake", version, "with PLAIN", mechanism="PLAIN")
        talk.drop()
        talk.ask("SaslHandshake", version, "with a bad mechanism", mechanism="NONE")
        talk.drop()
    for version in versions("SaslAuthenticate"):
        talk.ask("SaslAuthenticate", version, "without a handshake", auth_bytes=b"\0anna\0secret")
        talk.drop()


def frames(talk: Talk) -> None:
    """What no client sends."""

    def frame(key: int, version: int, body: bytes = b"", client: bytes = CLIENT) -> bytes:
        head = struct.pack(">hhih", key, version, 7, len(client)) + client + body
        return struct.pack(">i", len(head)) + head

    for name, api in BY_NAME.items():
        first, last = api.offered
        if name != "ApiVersions":
            talk.raw(f"{name} after the last version", frame(api.key, max(last + 1, 30)))
        if first > 0:
            talk.raw(f"{name} before the first version", frame(api.key, first - 1))
        talk.raw(f"{name} that is cut off", frame(api.key, last, b"\0" if last >= api.flexible else b""))
    talk.raw("ApiVersions after the last version", frame(18, 99, b"\0"))
    talk.raw("an unknown API", frame(999, 0))
    talk.raw("a negative length", struct.pack(">i", -1))
    talk.raw("no length", struct.pack(">i", 0))
    talk.raw("a huge length", struct.pack(">i", 2_000_000_000) + b"x")
    talk.raw("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    talk.raw("a client id that is cut off", struct.pack(">ihhih", 10, 18, 0, 1, 100))
    talk.raw("more than the message", frame(18, 0, b"more"))


CONVERSATIONS = (api_versions, metadata, partitions_described, brokers, logins, frames)
