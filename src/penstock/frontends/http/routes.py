"""The table of routes: what the API has, who may, what goes in and what comes out.

The application, the OpenAPI document and the test of permissions are made from
it, so none of them can know a route that the others do not.  Paths that are asked
for most are at the top, because they are looked for in this order.
"""

from typing import Any, Final

from penstock.frontends.http import health, openapi, publishing, topics
from penstock.frontends.http.call import Call, Route
from penstock.info import BrokerInfo, TopicInfo

NO_TOPIC: Final = ("TOPIC_NOT_FOUND", "NAME_INVALID")
OPTIONS: Final = ("VALUE_INVALID", "NAME_INVALID")


async def openapi_document(_: Call) -> dict[str, Any]:
    """This description."""
    return openapi.document(ROUTES)


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/topics/{topic}/publish",
        handler=publishing.publish,
        operation="publish",
        tag="publish",
        body=publishing.NewMessage,
        answer=publishing.Published,
        errors=(
            *NO_TOPIC,
            "VALUE_INVALID",
            "MESSAGE_EMPTY",
            "MESSAGE_TOO_LARGE",
            "PRIORITY_UNKNOWN",
            "DELAY_OUT_OF_RANGE",
            "PARTITION_NOT_FOUND",
            "QUEUE_FULL",
            "DISK_FULL",
            "STORAGE_FAILED",
        ),
    ),
    Route(
        method="GET",
        path="/v1/topics",
        handler=topics.list_topics,
        operation="topics",
        tag="topics",
        answer=topics.TopicList,
    ),
    Route(
        method="POST",
        path="/v1/topics",
        handler=topics.create_topic,
        operation="create_topic",
        tag="topics",
        body=topics.NewTopic,
        answer=TopicInfo,
        status=201,
        errors=("TOPIC_EXISTS", *OPTIONS),
    ),
    Route(
        method="GET",
        path="/v1/topics/{topic}",
        handler=topics.describe_topic,
        operation="describe_topic",
        tag="topics",
        answer=TopicInfo,
        errors=NO_TOPIC,
    ),
    Route(
        method="PATCH",
        path="/v1/topics/{topic}",
        handler=topics.alter_topic,
        operation="alter_topic",
        tag="topics",
        body=topics.TopicOptions,
        answer=TopicInfo,
        errors=("TOPIC_NOT_FOUND", *OPTIONS),
    ),
    Route(
        method="DELETE",
        path="/v1/topics/{topic}",
        handler=topics.delete_topic,
        operation="delete_topic",
        tag="topics",
        status=204,
        errors=NO_TOPIC,
    ),
    Route(
        method="GET",
        path="/v1/topics/{topic}/partitions",
        handler=topics.list_partitions,
        operation="describe_topic",
        tag="topics",
        answer=topics.PartitionList,
        errors=NO_TOPIC,
    ),
    Route(
        method="GET",
        path="/v1/stats",
        handler=health.stats,
        operation="stats",
        tag="server",
        answer=BrokerInfo,
    ),
    Route(
        method="GET",
        path="/health",
        handler=health.health,
        operation=None,
        tag="server",
        answer=health.Health,
        errors=("SHUTTING_DOWN",),
    ),
    Route(
        method="GET",
        path="/livez",
        handler=health.livez,
        operation=None,
        tag="server",
        answer=health.Health,
    ),
    Route(
        method="GET",
        path="/readyz",
        handler=health.readyz,
        operation=None,
        tag="server",
        answer=health.Health,
        errors=("SHUTTING_DOWN",),
    ),
    Route(
        method="GET",
        path="/version",
        handler=health.version,
        operation=None,
        tag="server",
        answer=health.Version,
    ),
    Route(
        method="GET",
        path="/openapi.json",
        handler=openapi_document,
        operation=None,
        tag="server",
        answer=dict[str, Any],
    ),
)
