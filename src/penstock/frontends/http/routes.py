"""The table of routes: paths, methods, permissions, requests and responses.

The application, the OpenAPI document and the permission tests all use it.  The most frequent paths are at the
top, because the router tries them in this order.
"""

from functools import cache
from typing import Any, Final

from penstock.frontends.http.call import EVENTS, NDJSON, HttpCall, Route
from penstock.frontends.http.handlers import access, cluster, groups, health, metrics, overview, sql, topics
from penstock.frontends.http.handlers.messages import (
    batches,
    browsing,
    consuming,
    dead_letters,
    publishing,
    schedules,
    streaming,
    transactions,
    websocket,
)
from penstock.frontends.http.pages import docs, openapi
from penstock.frontends.http.schema_routes import ROUTES as SCHEMA_ROUTES
from penstock.model.info import GroupInfo

NO_TOPIC: Final = ("TOPIC_NOT_FOUND", "NAME_INVALID")
NO_GROUP: Final = (*NO_TOPIC, "GROUP_NOT_FOUND")
RECEIPTS: Final = ("RECEIPT_UNKNOWN", "LEASE_LOST", "ALREADY_SETTLED", "VALUE_INVALID", "STORAGE_FAILED")
OPTIONS: Final = ("VALUE_INVALID", "NAME_INVALID")
TRANSACTION: Final = (
    "VALUE_INVALID",
    "TRANSACTION_ABORTED",
    "TRANSACTION_NOT_OPEN",
    "TRANSACTION_BUSY",
    "STORAGE_FAILED",
)
SQL: Final = ("VALUE_INVALID", "QUERY_INVALID", "QUERY_FAILED", "SQL_UNAVAILABLE", "OVERLOADED")
NO_NODE: Final = ("NOT_A_CLUSTER", "NODE_NOT_FOUND", "VALUE_INVALID")


@cache
def description() -> openapi.Document:
    return openapi.document(ROUTES)


async def openapi_document(_: HttpCall) -> dict[str, Any]:
    """The OpenAPI document of this API."""
    return description()


async def docs_page(_: HttpCall) -> bytes:
    """This API as an HTML page."""
    return _docs_page()


@cache
def _docs_page() -> bytes:
    return docs.page(description())


ROUTES: Final = (
    Route(
        "POST", "/v1/topics/{topic}/publish", publishing.publish, "publish", tag="publish",
        body=publishing.NewMessage, example={"text": "two books", "key": "anna"},
        errors=(*NO_TOPIC, "VALUE_INVALID", "MESSAGE_EMPTY", "MESSAGE_TOO_LARGE", "PRIORITY_UNKNOWN",
            "DELAY_OUT_OF_RANGE", "PARTITION_NOT_FOUND", "QUEUE_FULL", "DISK_FULL", "STORAGE_FAILED"),
    ),
    Route(
        "POST", "/v1/topics/{topic}/publish/batch", batches.publish_batch, "publish_batch", tag="publish",
        body=batches.NewMessages, example={"messages": [{"text": "one"}, {"json": {"books": 2}}]},
        answer=batches.PublishedBatch, streamed=True, pieces=NDJSON, errors=NO_TOPIC,
    ),
    Route(
        "POST", "/v1/topics/{topic}/groups/{group}/receive", consuming.receive, "batch_consumer",
        tag="consume", body=consuming.Receive, example={"max_messages": 10, "wait": "1s", "as": "text"},
        errors=(*NO_TOPIC, "VALUE_INVALID", "GROUP_KIND_MISMATCH", "SHUTTING_DOWN"),
    ),
    Route(
        "POST", "/v1/topics/{topic}/groups/{group}/ack", consuming.ack, "batch_consumer", tag="consume",
        body=consuming.Ack, example={"receipts": ["AAAA"]}, errors=RECEIPTS,
    ),
    Route(
        "POST", "/v1/topics/{topic}/groups/{group}/nack", consuming.nack, "batch_consumer", tag="consume",
        body=consuming.Nack, example={"receipts": ["AAAA"], "delay": "1m", "error": "no answer"},
        errors=RECEIPTS,
    ),
    Route(
        "POST", "/v1/topics/{topic}/groups/{group}/reject", consuming.reject, "batch_consumer", tag="consume",
        body=consuming.Reject, example={"receipts": ["AAAA"], "reason": "no good"}, errors=RECEIPTS,
    ),
    Route(
        "POST", "/v1/topics/{topic}/groups/{group}/extend", consuming.extend, "batch_consumer", tag="consume",
        body=consuming.Extend, example={"receipts": ["AAAA"], "duration": "1m"}, errors=RECEIPTS,
    ),
    Route(
        "GET", "/v1/topics/{topic}/groups/{group}/stream", streaming.stream, "batch_consumer", tag="consume",
        query=streaming.Stream, pieces=EVENTS,
        errors=(*NO_TOPIC, "VALUE_INVALID", "GROUP_KIND_MISMATCH", "SHUTTING_DOWN"),
    ),
    Route(
        "GET", "/v1/topics/{topic}/groups/{group}/ws", websocket.ask_for_socket, "batch_consumer",
        tag="consume", socket=websocket.serve_socket, query=websocket.Socket, status=101,
        errors=(*NO_TOPIC, "VALUE_INVALID", "GROUP_KIND_MISMATCH", "SHUTTING_DOWN", "UPGRADE_REQUIRED"),
    ),
    Route("GET", "/v1/topics", topics.list_topics, "topics", tag="topics"),
    Route(
        "POST", "/v1/topics", topics.create_topic, "create_topic", tag="topics", body=topics.NewTopic,
        example={"name": "bills", "options": {"partitions": 4}}, status=201,
        errors=("TOPIC_EXISTS", *OPTIONS),
    ),
    Route(
        "GET", "/v1/topics/{topic}", topics.describe_topic, "describe_topic", tag="topics", errors=NO_TOPIC,
    ),
    Route(
        "HEAD", "/v1/topics/{topic}", topics.topic_exists, "topic_exists", tag="topics", status=204,
        errors=NO_TOPIC,
    ),
    Route(
        "PATCH", "/v1/topics/{topic}", topics.alter_topic, "alter_topic", tag="topics",
        body=topics.TopicOptions, example={"retention": "30d"}, errors=("TOPIC_NOT_FOUND", *OPTIONS),
    ),
    Route(
        "DELETE", "/v1/topics/{topic}", topics.delete_topic, "delete_topic", tag="topics", status=204,
        errors=NO_TOPIC,
    ),
    Route(
        "GET", "/v1/topics/{topic}/partitions", topics.list_partitions, "describe_topic", tag="topics",
        errors=NO_TOPIC,
    ),
    Route("GET", "/v1/topics/{topic}/lanes", topics.list_lanes, "lanes", tag="topics", errors=NO_TOPIC),
    Route(
        "GET", "/v1/topics/{topic}/messages", browsing.browse, "read", tag="messages", query=browsing.Browse,
        errors=(*NO_TOPIC, "VALUE_INVALID", "PARTITION_NOT_FOUND", "OFFSET_OUT_OF_RANGE"),
    ),
    Route(
        "GET", "/v1/topics/{topic}/offsets", browsing.find_offsets, "offsets", tag="messages",
        query=browsing.At, errors=(*NO_TOPIC, "VALUE_INVALID"),
    ),
    Route(
        "GET", "/v1/trace/{id}", browsing.trace, "trace", tag="messages",
        errors=(*NO_TOPIC, "VALUE_INVALID", "PARTITION_NOT_FOUND", "OFFSET_OUT_OF_RANGE"),
    ),
    Route(
        "GET", "/v1/topics/{topic}/groups", groups.list_groups, "describe_topic", tag="groups",
        errors=NO_TOPIC,
    ),
    Route(
        "GET", "/v1/topics/{topic}/groups/{group}", groups.describe_group, "describe_group", tag="groups",
        answer=GroupInfo, errors=NO_GROUP,
    ),
    Route(
        "PUT", "/v1/topics/{topic}/groups/{group}", groups.set_group, "create_group", tag="groups",
        body=groups.GroupOptions, example={"visibility_timeout": "1m"}, answer=GroupInfo,
        errors=("TOPIC_NOT_FOUND", "GROUP_KIND_MISMATCH", *OPTIONS),
    ),
    Route(
        "DELETE", "/v1/topics/{topic}/groups/{group}", groups.delete_group, "delete_group", tag="groups",
        status=204, errors=NO_GROUP,
    ),
    Route(
        "POST", "/v1/topics/{topic}/groups/{group}/seek", groups.seek_group, "seek", tag="groups",
        body=groups.Seek, example={"to": "earliest"}, answer=GroupInfo,
        errors=(*NO_GROUP, "VALUE_INVALID", "PARTITION_NOT_FOUND"),
    ),
    Route(
        "GET", "/v1/dead-letters", dead_letters.list_errors, "dead_letter_errors", tag="dead letters",
        query=dead_letters.OfTopic, errors=NO_TOPIC,
    ),
    Route(
        "GET", "/v1/topics/{topic}/dead-letters", dead_letters.list_dead_letters, "dead_letters",
        tag="dead letters", query=dead_letters.DeadLetterListing, errors=NO_TOPIC,
    ),
    Route(
        "POST", "/v1/topics/{topic}/dead-letters/redrive", dead_letters.redrive, "redrive",
        tag="dead letters", body=dead_letters.RedriveSome, example={"limit": 100, "dry_run": True},
        errors=(*NO_TOPIC, "VALUE_INVALID"),
    ),
    Route(
        "GET", "/v1/topics/{topic}/dead-letters/{id}", dead_letters.show_dead_letter, "dead_letter",
        tag="dead letters", query=dead_letters.Showing,
        errors=(*NO_TOPIC, "VALUE_INVALID", "DEAD_LETTER_NOT_FOUND"),
    ),
    Route(
        "GET", "/v1/topics/{topic}/schedules", schedules.list_schedules, "scheduled", tag="schedules",
        query=dead_letters.Listing, errors=NO_TOPIC,
    ),
    Route(
        "POST", "/v1/topics/{topic}/schedules", schedules.add_schedule, "schedule", tag="schedules",
        body=schedules.Recurring, example={"text": "good morning", "cron": "0 8 * * 1"}, status=201,
        errors=(*NO_TOPIC, "VALUE_INVALID", "PRIORITY_UNKNOWN", "PARTITION_NOT_FOUND", "QUEUE_FULL"),
    ),
    Route(
        "DELETE", "/v1/schedules/{id}", schedules.cancel_schedule, "cancel", tag="schedules",
        errors=(*NO_TOPIC, "VALUE_INVALID"),
    ),
    Route(
        "PATCH", "/v1/schedules/{id}", schedules.reschedule, "reschedule", tag="schedules",
        body=schedules.Reschedule, example={"delay": "1m"},
        errors=(*NO_TOPIC, "VALUE_INVALID", "DELAY_OUT_OF_RANGE"),
    ),
    Route(
        "POST", "/v1/transactions", transactions.begin_transaction, "begin_transaction", tag="transactions",
        body=transactions.NewTransaction, example={"id": "billing", "timeout": "30s"}, status=201,
        errors=("VALUE_INVALID", "LIMIT_REACHED", "TRANSACTION_BUSY"),
    ),
    Route(
        "POST", "/v1/transactions/{transaction}/topics/{topic}/publish",
        transactions.publish_in_transaction, "publish_in_transaction",
        tag="transactions", body=transactions.TransactionMessages, example={"messages": [{"text": "a bill"}]},
        errors=(*NO_TOPIC, *TRANSACTION, "MESSAGE_EMPTY", "MESSAGE_TOO_LARGE", "PRIORITY_UNKNOWN",
            "PARTITION_NOT_FOUND", "QUEUE_FULL", "DISK_FULL"),
    ),
    Route(
        "POST", "/v1/transactions/{transaction}/topics/{topic}/groups/{group}/ack",
        transactions.ack_in_transaction, "ack_in_transaction",
        tag="transactions", body=consuming.Ack, example={"receipts": ["AAAA"]},
        errors=(*NO_GROUP, *TRANSACTION, "RECEIPT_UNKNOWN", "LEASE_LOST", "ALREADY_SETTLED"),
    ),
    Route(
        "POST", "/v1/transactions/{transaction}/commit",
        transactions.commit_transaction, "commit_transaction",
        tag="transactions", errors=(*TRANSACTION, "LEASE_LOST", "ALREADY_SETTLED", "DISK_FULL"),
    ),
    Route(
        "POST", "/v1/transactions/{transaction}/abort", transactions.abort_transaction, "abort_transaction",
        tag="transactions", errors=(*TRANSACTION, "DISK_FULL"),
    ),
    Route("GET", "/v1/keys", access.list_keys, "keys", tag="access"),
    Route(
        "POST", "/v1/keys", access.create_key, "create_key", tag="access", body=access.KeyToMake,
        example={"name": "shop", "grants": [{"role": "producer", "topics": ["orders*"]}]}, status=201,
        errors=OPTIONS,
    ),
    Route(
        "DELETE", "/v1/keys/{id}", access.revoke_key, "revoke_key", tag="access", status=204,
        errors=("IDENTITY_NOT_FOUND",),
    ),
    Route("GET", "/v1/users", access.list_users, "users", tag="access"),
    Route(
        "PUT", "/v1/users/{user}", access.set_user, "set_user", tag="access", body=access.UserToSet,
        example={"password": "correct horse battery", "grants": [{"role": "reader"}]}, status=204,
        errors=OPTIONS,
    ),
    Route(
        "DELETE", "/v1/users/{user}", access.delete_user, "delete_user", tag="access", status=204,
        errors=("IDENTITY_NOT_FOUND",),
    ),
    Route(
        "GET", "/v1/cluster", cluster.cluster_info, "cluster_info", tag="cluster", errors=("NOT_A_CLUSTER",),
    ),
    Route(
        "POST", "/v1/cluster/nodes/{node}/drain", cluster.drain_node, "drain_node", tag="cluster",
        body=cluster.DrainNode, example={"undo": False}, errors=(*NO_NODE, "NODE_UNFIT"),
    ),
    Route(
        "DELETE", "/v1/cluster/nodes/{node}", cluster.remove_node, "remove_node", tag="cluster", status=204,
        errors=(*NO_NODE, "NODE_RUNNING"),
    ),
    Route(
        "POST", "/v1/cluster/move", cluster.move_partition, "move_partition", tag="cluster",
        body=cluster.MovePartition, example={"topic": "orders", "partition": 0, "node": 2},
        errors=(*NO_NODE, *NO_TOPIC, "PARTITION_NOT_FOUND", "NODE_UNFIT", "PARTITION_MOVED"),
    ),
    Route(
        "POST", "/v1/cluster/balance", cluster.balance_partitions, "balance_partitions", tag="cluster",
        body=cluster.Balance, example={"dry_run": True}, errors=("NOT_A_CLUSTER",),
    ),
    Route("GET", "/v1/pipelines", overview.list_pipelines, "read", tag="server"),
    Route("GET", "/v1/overview", overview.overview, "overview", tag="server"),
    Route(
        "GET", "/v1/history", overview.history, "stats", tag="server", query=overview.OfWhat, errors=NO_GROUP,
    ),
    Route(
        "POST", "/v1/sql", sql.run_sql, "topics", tag="sql", body=sql.SqlQuery,
        example={"query": "select key, count(*) from orders group by key", "limit": 100},
        answer=sql.SqlResult, others=(sql.CSV, sql.ARROW), errors=SQL,
    ),
    Route("GET", "/v1/sql/tables", sql.list_sql_tables, "topics", tag="sql", errors=SQL),
    Route("GET", "/v1/sql/tables/{table}", sql.list_sql_columns, "topics", tag="sql", errors=SQL),
    *SCHEMA_ROUTES,
    Route("GET", "/v1/stats", health.stats, "stats", tag="server"),
    Route("GET", "/metrics", metrics.metrics, "metrics", tag="server", pieces=metrics.MEDIA_TYPE),
    Route("GET", "/health", health.health, None, tag="server", errors=("SHUTTING_DOWN", "UNHEALTHY")),
    Route("GET", "/livez", health.livez, None, tag="server"),
    Route("GET", "/readyz", health.readyz, None, tag="server", errors=("SHUTTING_DOWN", "UNHEALTHY")),
    Route("GET", "/version", health.version, None, tag="server"),
    Route("GET", "/openapi.json", openapi_document, None, tag="server"),
    Route("GET", "/docs", docs_page, None, tag="server", kind=docs.KIND, headers=docs.POLICY),
)  # fmt: skip
