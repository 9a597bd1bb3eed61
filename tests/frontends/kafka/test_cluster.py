"""What clients learn about the cluster, and newer versions of APIs that ask for what is not here."""

import base64
import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from crc32c import crc32c
from tests.frontends.kafka.conftest import Server, serving
from tests.frontends.kafka.raw import Raw

from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages import cluster, metadata, positions
from penstock.wire.kafka.messages.groups import streams_groups


def cluster_ids(kafka: Server) -> set[str]:
    """As three ways to ask tell it."""
    with Raw(kafka) as raw:
        told = raw.ask(metadata.MetadataRequest(topics=[]), metadata.MetadataResponse, 12).cluster_id
        described = raw.ask(cluster.DescribeClusterRequest(), cluster.DescribeClusterResponse, 0).cluster_id
    admin = AdminClient({"bootstrap.servers": kafka.address})
    return {str(told), described, admin.describe_cluster().result(10).cluster_id}


def test_a_directory_has_a_cluster_id_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    ids = []
    for name in ("one", "one", "two"):
        for server in serving(str(tmp_path / name)):
            [found] = cluster_ids(server)
            ids.append(found)

    assert ids[0] == ids[1] != ids[2]
    assert all(len(base64.urlsafe_b64decode(each + "==")) == 16 and len(each) == 22 for each in ids)


def test_a_directory_of_an_earlier_version_gets_a_cluster_id(tmp_path: Path) -> None:
    for server in serving(str(tmp_path)):
        [before] = cluster_ids(server)
    path = tmp_path / "penstock.json"
    stored = json.loads(path.read_bytes().partition(b"\n")[0])
    assert stored.pop("cluster_id") == before
    text = json.dumps(stored).encode()
    path.write_bytes(text + b"\ncrc32c %08x\n" % crc32c(text))

    ids = [cluster_ids(server) for _ in range(2) for server in serving(str(tmp_path))]

    assert ids[0] == ids[1] != {before}


@pytest.mark.parametrize(("at", "offset"), [(-1, 3), (-2, 0), (-4, 0), (-5, -1), (-6, -1)])
def test_offsets_of_what_only_tiered_logs_have_are_none(kafka: Server, at: int, offset: int) -> None:
    kafka.run(kafka.broker.create_topic("orders", partitions=1))
    kafka.run(kafka.broker.publish_batch("orders", [b"x"] * 3))
    asked = positions.ListOffsetsTopic("orders", [positions.ListOffsetsPartition(timestamp=at)])

    with Raw(kafka) as raw:
        request = positions.ListOffsetsRequest(replica_id=-1, topics=[asked])
        [topic] = raw.ask(request, positions.ListOffsetsResponse, 11).topics

    assert (topic.partitions[0].error_code, topic.partitions[0].offset) == (Code.NONE, offset)


def test_who_wants_a_streams_group_is_told_to_use_another_protocol(kafka: Server) -> None:
    topology = streams_groups.RequestedTopology(1, [streams_groups.RequestedSubtopology("0", ["orders"])])
    beat = streams_groups.StreamsGroupHeartbeatRequest(group_id="g", member_id="m", topology=topology)
    asked = streams_groups.StreamsGroupDescribeRequest(group_ids=["g"])

    with Raw(kafka) as raw:
        refused = raw.ask(beat, streams_groups.StreamsGroupHeartbeatResponse, 0)
        [group] = raw.ask(asked, streams_groups.StreamsGroupDescribeResponse, 0).groups

    assert (refused.error_code, refused.member_id) == (Code.UNSUPPORTED_VERSION, "m")
    assert "group.protocol=classic" in (refused.error_message or "")
    assert (group.group_id, group.error_code) == ("g", Code.GROUP_ID_NOT_FOUND)
