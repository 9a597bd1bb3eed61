"""Every operation of a broker: its name, arguments, result, permission, retry class and route.

    spec.py ── make generate ──┬──> api/declared.py                the interface of a broker
                               ├──> api/aio_calls.py               methods of AsyncBroker
                               ├──> api/broker_calls.py            methods of Broker
                               ├──> client/calls.py                methods of the remote client
                               ├──> operations/calls.py            the calls of the native protocol
                               ├──> broker/program.py              the embedded broker's operations as steps
                               ├──> cluster/routing/*.py           the operations of a cluster's node
                               ├──> frontends/security/needs.py    permissions
                               ├──> frontends/security/guarded.py  the broker's operations, with checks
                               └──> docs/protocols/native.md       the table of calls

``entry.py`` explains the fields, CONTRIBUTING.md how to add an operation.  This
module is read by ``scripts/operations.py`` and by tests, not by a running broker.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, Unpack

from penstock.config.broker import GroupOptions, Start, TopicOptions
from penstock.errors import GroupNotFound, IdentityNotFound, NodeNotFound, TopicExists, TopicNotFound
from penstock.model.access import Grant, KeyInfo, NewKey, Quota, UserInfo
from penstock.model.cluster import ClusterInfo, Moved, TopicOwners
from penstock.model.info import (
    BrokerInfo,
    Cancelled,
    DeadLetter,
    DeadLetterErrors,
    DeliveryState,
    Fetched,
    GroupInfo,
    OpenTransaction,
    Redrive,
    Restore,
    ScheduledMessage,
    StagedPublish,
    TopicInfo,
)
from penstock.model.message import Message, Receipt, StoredMessage
from penstock.model.schemas import (
    Compatibility,
    NewSchema,
    ReadValue,
    SchemaInfo,
    SchemaSettings,
    SchemaVerdict,
)
from penstock.model.trace import Trace
from penstock.operations.call import (
    FETCH_BYTES,
    HOLD,
    IDEMPOTENT,
    LIST_LIMIT,
    MOVE_MS_MAX,
    PUBLISH_STAGED_MS_MAX,
    READ_ONLY,
    REDRIVE_MS_MAX,
    TRANSACTION_TIMEOUT,
    done_when,
)
from penstock.operations.entry import operation, server_operation
from penstock.types import Duration, Instant


class TopicOperations(Protocol):
    @operation(
        "admin",
        topic="name",
        acl="create",
        audit=("name",),
        dead_letter_topic_in="options",
        retry=done_when(TopicExists),
        facade=False,
    )
    def create_topic(self, name: str, **options: Unpack[TopicOptions]) -> None:
        """Create a topic; see ``TopicOptions`` for its settings."""

    @operation("admin", topic="name", audit=("name",), dead_letter_topic_in="options", retry=IDEMPOTENT)
    def alter_topic(self, name: str, **options: Unpack[TopicOptions]) -> None:
        """Change settings of a topic.  Its number of partitions can only grow."""

    @operation("admin", topic="name", acl="delete", audit=("name",), retry=done_when(TopicNotFound))
    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its messages and groups."""

    @operation("describe", result_filter="visible_topics", retry=READ_ONLY, waits=False)
    def topics(self) -> list[str]:
        """The names of all topics."""

    @operation("describe", result_filter="visible_topics", retry=READ_ONLY, route="cluster", merge="names")
    def queues(self) -> list[str]:
        """The names of all queues: topics with the group ``default`` of the kind ``queue``."""

    @operation("describe", topic="topic", retry=READ_ONLY, waits=False)
    def topic_exists(self, topic: str) -> bool:
        """Whether there is a topic of this name."""

    @operation("describe", topic="topic", retry=READ_ONLY, waits=False)
    def topic_owners(self, topic: str) -> TopicOwners:
        """The nodes of a cluster that own the partitions of a topic, and their addresses."""

    @operation("describe", topic="name", retry=READ_ONLY, route="topic", merge="topic_info")
    def describe_topic(self, name: str) -> TopicInfo:
        """Settings, sizes and counts of a topic."""


class PublishOperations(Protocol):
    @operation(
        "publish",
        topic="topic",
        metered="messages",
        creates_topic=True,
        exposure="program",
        client=False,
        route="written by hand",
    )
    def publish_batch(self, topic: str, messages: Iterable[Message | bytes]) -> list[Receipt]:
        """Publish many messages at once; one receipt each, in their order."""

    @operation(
        "publish",
        topic="topic",
        metered="batch",
        creates_topic=True,
        exposure="program",
        client=False,
        route="written by hand",
    )
    def append(self, topic: str, partition: int, batch: bytes) -> Receipt:
        """Append an encoded record batch (RecordBatch v2) as it is; the offset is its first record's."""

    @operation("publish", topic="topic", metered="batch", retry=IDEMPOTENT, route="written by hand")
    def stage(self, topic: str, batch: bytes) -> int:
        """Store record batches for a topic without publishing them; returns the offset of the first one.

        ``batch`` is made by ``wire/staged.py``.  What is not published within a day is deleted.
        """

    @operation(
        "publish", topic="topic", retry=IDEMPOTENT, wait_ms=PUBLISH_STAGED_MS_MAX, route="first partition"
    )
    def publish_staged(
        self, topic: str, application: str, version: int, staged: dict[str, list[tuple[int, int]]]
    ) -> StagedPublish:
        """Publish staged batches, all of them and once; offsets by token.

        If the version is not above the application's last one, it was published before: nothing happens.
        """

    @operation("describe", topic="topic", retry=READ_ONLY, route="first partition")
    def published_version(self, topic: str, application: str) -> int | None:
        """The last version that an application published, or None."""


class TransactionOperations(Protocol):
    """Messages to many topics and acks of many groups that take effect together, or not at all."""

    @operation("publish", transactional_id="transactional_id", facade=False, route="written by hand")
    def begin_transaction(
        self, transactional_id: str | None = None, *, abort_after: Duration = TRANSACTION_TIMEOUT
    ) -> OpenTransaction:
        """Begin a transaction; an open transaction of the same id is aborted.

        Without an id the broker chooses one.  A transaction that is open for longer is aborted.
        """

    @operation(
        "publish",
        topic="topic",
        metered="messages",
        creates_topic=True,
        transactional_id="transactional_id",
        facade=False,
        client=False,
        route="written by hand",
    )
    def publish_in_transaction(
        self, topic: str, messages: list[Message], transactional_id: str, producer_id: int, epoch: int
    ) -> list[Receipt]:
        """Publish messages that readers see when the transaction is committed; one receipt each."""

    @operation(
        "consume",
        topic="topic",
        group="group",
        transactional_id="transactional_id",
        facade=False,
        route="written by hand",
    )
    def ack_in_transaction(
        self,
        topic: str,
        group: str,
        runs: list[tuple[int, int, int, int]],
        transactional_id: str,
        producer_id: int,
        epoch: int,
    ) -> None:
        """Ack messages of a queue group when the transaction is committed.

        A run is a partition, a lease, and the first offset and the one after the last.
        """

    @operation(
        "publish",
        transactional_id="transactional_id",
        retry=IDEMPOTENT,
        facade=False,
        route="written by hand",
    )
    def commit_transaction(self, transactional_id: str, producer_id: int, epoch: int) -> None:
        """Commit a transaction; returns when all readers can see it."""

    @operation(
        "publish",
        transactional_id="transactional_id",
        retry=IDEMPOTENT,
        facade=False,
        route="written by hand",
    )
    def abort_transaction(self, transactional_id: str, producer_id: int, epoch: int) -> None:
        """Abort a transaction; no effect if it was aborted before."""


server_operation(
    "publish",
    operation(
        "publish",
        topic="topic",
        metered="message",
        creates_topic=True,
        exposure="program",
        route="written by hand",
    ),
)
server_operation(
    "producer", operation("publish", result_filter="GuardedProducer", exposure="program", waits=False)
)


class GroupOperations(Protocol):
    @operation("consume", topic="topic", group="group", retry=IDEMPOTENT, route="topic")
    def create_group(self, topic: str, group: str, **options: Unpack[GroupOptions]) -> None:
        """Create a group, or change its settings, without consuming."""

    @operation(
        "consume", topic="topic", group="group", acl="delete", retry=done_when(GroupNotFound), route="topic"
    )
    def delete_group(self, topic: str, group: str) -> None:
        """Delete a group and its position; its consumers are closed."""

    @operation("describe", topic="topic", group="group", retry=READ_ONLY, route="topic", merge="group_info")
    def describe_group(self, topic: str, group: str) -> GroupInfo:
        """Progress of a group: lag, rates, what blocks it, and its status in a word (the verdict)."""

    @operation("describe", topic="topic", group="group", retry=READ_ONLY, route="partition")
    def delivery_states(
        self, topic: str, group: str, partition: int, start: int, end: int
    ) -> list[DeliveryState]:
        """Delivery states of the messages from ``start`` to ``end`` in a group, as ranges of equal state."""

    @operation("consume", topic="topic", group="group", retry=IDEMPOTENT, route="partition or topic")
    def seek(
        self, topic: str, group: str, to: Start | str | Instant, *, partition: int | None = None
    ) -> None:
        """Move a group to "earliest", "latest", an offset or a time, on one partition or on all."""

    @operation("consume", topic="topic", group="group", retry=IDEMPOTENT, route="written by hand")
    def commit_offsets(self, topic: str, group: str, offsets: dict[int, int]) -> None:
        """Commit offsets, by partition, of a reader that tracks its own position.

        The group is a stream group without members, created at first use; its lag is reported as usual.
        """

    @operation("admin", topic="topic", audit=("topic",), retry=IDEMPOTENT, route="partition")
    def begin_restore(self, topic: str, partition: int, start: int) -> Restore:
        """Prepare to restore what retention deleted, from ``start`` up to where the log begins.

        Until it is finished, or nothing was received for ten minutes, retention leaves the partition alone.
        """

    # Not audited: the beginning and the end of a restore are.
    @operation("admin", topic="topic", retry=IDEMPOTENT, route="partition")
    def restore(self, topic: str, partition: int, restore: int, batches: bytes) -> int:
        """Pass record batches with their old offsets, ascending; returns the offset after the last.

        Offsets that are in no batch stay empty.  Batches that were passed before are not stored twice.
        """

    @operation("admin", topic="topic", group="group", audit=("topic", "group"), route="partition")
    def finish_restore(
        self, topic: str, partition: int, restore: int, group: str, *, hold: Duration = HOLD
    ) -> None:
        """Put the messages back into the log, and move the group to the first of them.

        Retention waits for up to ``hold`` until the group has settled everything that the log has now.
        """


server_operation(
    "consumer",
    operation(
        "consume",
        topic="topic",
        group="group",
        creates_topic=True,
        result_filter="guarded_consumer",
        exposure="program",
        route="written by hand",
    ),
)


class ReadOperations(Protocol):
    """Operations that change nothing."""

    @operation("read", topic="topic", exposure="program", client=False, route="written by hand")
    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = FETCH_BYTES,
        journal: bool = False,
    ) -> Fetched:
        """Record batches as they are in the log, from the one with ``offset`` on; none at the end.

        At least one whole batch, and as many as fit into ``max_bytes``; with ``journal`` those of the
        partition's journal, whose records are the events of ``penstock.delivery.events``.
        """

    @operation("describe", topic="topic", retry=READ_ONLY, route="topic", merge="by_partition")
    def offsets(self, topic: str, at: str | Instant, *, journal: bool = False) -> dict[int, int]:
        """By partition, the offset of "earliest", "latest", or of the first message not older than a time."""

    @operation("read", topic="topic", retry=READ_ONLY, facade=False, route="partition or topic", merge="read")
    def read(
        self,
        topic: str,
        *,
        partition: int | None = None,
        offset: int | None = None,
        from_time: Instant | None = None,
        to_time: Instant | None = None,
        limit: int = 100,
    ) -> list[StoredMessage]:
        """Up to ``limit`` stored messages from an offset or a time on, before ``to_time``; fewer if large."""

    @operation("read", topic="topic", retry=READ_ONLY, facade=False, route="partition or topic", merge="peek")
    def peek(self, topic: str, count: int = 10, *, partition: int | None = None) -> list[StoredMessage]:
        """The last ``count`` messages, the oldest of them first."""

    @operation("read", topic="topic", by_id=True, retry=READ_ONLY, facade=False, route="id")
    def trace(self, topic: str, partition: int | None = None, offset: int | None = None) -> Trace:
        """Everything that happened to a message, identified by its offset, its id or its schedule id."""


class ScheduleOperations(Protocol):
    @operation(
        "publish",
        topic="topic",
        metered="message",
        creates_topic=True,
        facade=False,
        client=False,
        route="written by hand",
    )
    def schedule(self, topic: str, message: Message, *, cron: str, timezone: str = "UTC") -> str:
        """Publish a message repeatedly, at the times of a cron expression; returns the schedule id."""

    @operation("read", topic="topic", retry=READ_ONLY, route="topic", merge="scheduled")
    def scheduled(self, topic: str, limit: int = LIST_LIMIT) -> list[ScheduledMessage]:
        """Messages that are not due yet, in the order in which they were accepted."""

    @operation("describe", topic="topic", retry=READ_ONLY, route="topic", merge="total")
    def scheduled_count(self, topic: str) -> int:
        """How many messages are not due yet."""

    @operation("publish", topic="schedule_id", by_id=True, route="id")
    def cancel(self, schedule_id: str) -> Cancelled:
        """Cancel a scheduled message: "cancelled", or "delivered" or "unknown" if it cannot be."""

    @operation("publish", topic="schedule_id", by_id=True, retry=IDEMPOTENT, route="id")
    def reschedule(
        self, schedule_id: str, *, delay: Duration | None = None, deliver_at: Instant | None = None
    ) -> bool:
        """Give a scheduled message another time; False if it was delivered or cancelled."""


class DeadLetterOperations(Protocol):
    @operation("read", topic="topic", retry=READ_ONLY, route="cluster", merge="dead_letters")
    def dead_letters(self, topic: str, limit: int = LIST_LIMIT) -> list[DeadLetter]:
        """The dead letters of a topic that were not redriven yet."""

    @operation(
        "read",
        topic="topic",
        result_filter="readable_errors",
        retry=READ_ONLY,
        route="cluster",
        merge="dead_letter_errors",
    )
    def dead_letter_errors(self, topic: str | None = None) -> list[DeadLetterErrors]:
        """Dead letters counted by error, the most frequent first; of one topic or of all."""

    @operation(
        "admin",
        topic="topic",
        group="group",
        audit=("topic", "group"),
        wait_ms=REDRIVE_MS_MAX,
        route="written by hand",
    )
    def redrive(
        self,
        topic: str,
        *,
        limit: int = 1_000_000,
        rate: float | None = None,
        dry_run: bool = False,
        error: str | None = None,
        group: str | None = None,
    ) -> Redrive:
        """Send dead letters back to their topic: all, or those of one error or group.

        ``error`` is a fingerprint, the class of an error, or the id of one message; ``rate`` is messages a
        second; a dry run only counts.
        """


class SchemaOperations(Protocol):
    """The schema registry.  Subject ``orders-value`` needs the permissions of topic ``orders``."""

    @operation("publish", topic="subject", by_subject=True, audit=("subject",), retry=IDEMPOTENT)
    def register_schema(self, subject: str, schema: NewSchema) -> SchemaInfo:
        """Register a schema as the next version of a subject; one that it has already is returned."""

    @operation("describe", topic="subject", by_subject=True, retry=READ_ONLY)
    def find_schema(self, subject: str, schema: NewSchema, *, deleted: bool = False) -> SchemaInfo:
        """The version of a subject that has this schema."""

    @operation("describe", topic="subject", by_subject=True, retry=READ_ONLY)
    def check_schema(
        self,
        subject: str,
        schema: NewSchema,
        version: int | str | None = None,
        *,
        level: Compatibility | None = None,
    ) -> SchemaVerdict:
        """Whether a schema is compatible with a version, or could be registered.

        By the level of the subject, or by another one.
        """

    @operation("read", topic="topic", retry=READ_ONLY)
    def read_values(self, topic: str, values: list[bytes]) -> list[ReadValue]:
        """Values of a topic as JSON, by the schemas of the topic: also Avro and Protobuf ones."""

    @operation("describe", topic="subject", by_subject=True, retry=READ_ONLY, waits=False)
    def schema(self, subject: str, version: int | str = "latest", *, deleted: bool = False) -> SchemaInfo:
        """One version of a subject."""

    @operation("describe", topic="subject", by_subject=True, retry=READ_ONLY, waits=False)
    def schema_versions(self, subject: str, *, deleted: bool = False) -> list[SchemaInfo]:
        """All versions of a subject, the oldest first; with those that are softly deleted, if asked for."""

    @operation("describe", result_filter="visible_schemas", retry=READ_ONLY, waits=False)
    def schemas(self, *, deleted: bool = False) -> list[SchemaInfo]:
        """All versions of all subjects, by name."""

    @operation("describe", result_filter="visible_schemas", retry=READ_ONLY, waits=False)
    def schema_uses(self, schema_id: int, *, deleted: bool = True) -> list[SchemaInfo]:
        """The versions, of any subject, that have this schema id; none if the id is unknown."""

    @operation("describe", topic="subject", by_subject=True, retry=READ_ONLY, waits=False)
    def schema_references(self, subject: str, version: int | str) -> list[int]:
        """The ids of schemas that refer to a version."""

    @operation(
        "admin", topic="subject", by_subject=True, acl="delete", audit=("subject", "version", "permanent")
    )
    def delete_schema(
        self, subject: str, version: int | str | None = None, *, permanent: bool = False
    ) -> list[int]:
        """Delete one version of a subject or all: softly, then permanently.  Returns their numbers."""

    @operation("describe", topic="subject", by_subject=True, retry=READ_ONLY, waits=False)
    def schema_settings(self, subject: str | None = None, *, effective: bool = True) -> SchemaSettings:
        """Compatibility level and mode of a subject (in effect, or only its own), or of the registry."""

    @operation("admin", topic="subject", by_subject=True, audit=("subject", "settings"), retry=IDEMPOTENT)
    def alter_schema_settings(
        self, subject: str | None, settings: SchemaSettings, *, force: bool = False
    ) -> None:
        """Set compatibility level or mode of a subject, or (None) of the registry.

        ``force`` allows mode IMPORT although there are schemas.
        """

    @operation("admin", topic="subject", by_subject=True, audit=("subject", "setting"))
    def reset_schema_setting(self, subject: str | None, setting: str) -> SchemaSettings:
        """Remove the own "compatibility" or "mode" of a subject, or (None) reset the registry's.

        Returns the settings as they were.
        """


class AccessOperations(Protocol):
    """Keys and users of a server with authentication."""

    @operation("admin", audit=("name",))
    def create_key(
        self, name: str, grants: Sequence[Grant], *, quota: Quota | None = None, signing: bool = False
    ) -> NewKey:
        """Create an API key.  Its secret is in the result and is not stored anywhere.

        With ``signing`` it can also sign requests of SQS clients; the server stores what that takes.
        """

    @operation("admin", acl="describe", retry=READ_ONLY, waits=False)
    def keys(self) -> list[KeyInfo]:
        """The API keys, the oldest first."""

    @operation("admin", audit=("key_id",), retry=done_when(IdentityNotFound))
    def revoke_key(self, key_id: str) -> None:
        """Revoke an API key, by its id; connections that use it are closed."""

    @operation("admin", audit=("name",), retry=IDEMPOTENT)
    def set_user(
        self, name: str, password: str, grants: Sequence[Grant], *, quota: Quota | None = None
    ) -> None:
        """Create a user, or change the password and grants of one; its connections are closed."""

    @operation("admin", acl="describe", retry=READ_ONLY, waits=False)
    def users(self) -> list[UserInfo]:
        """The names and permissions of all users, without their passwords."""

    @operation("admin", audit=("name",), retry=done_when(IdentityNotFound))
    def delete_user(self, name: str) -> None:
        """Delete a user; its connections are closed."""


class AdministrationOperations(Protocol):
    """Operating a cluster; every node can be asked.  Other servers answer ``NotACluster``."""

    @operation("admin", acl="describe", retry=READ_ONLY, route="written by hand")
    def cluster_info(self) -> ClusterInfo:
        """Nodes, owners and takeovers of the cluster that this server is a node of."""

    @operation("admin", audit=("node",), retry=IDEMPOTENT, wait_ms=MOVE_MS_MAX, route="written by hand")
    def drain_node(self, node: int, *, undo: bool = False) -> Moved:
        """Move all partitions away from a node and keep others away, or (``undo``) end that."""

    @operation("admin", audit=("node",), retry=done_when(NodeNotFound), route="written by hand")
    def remove_node(self, node: int) -> None:
        """Remove a node that has stopped permanently."""

    @operation(
        "admin",
        topic="topic",
        audit=("topic", "partition", "node"),
        retry=IDEMPOTENT,
        wait_ms=MOVE_MS_MAX,
        route="written by hand",
    )
    def move_partition(self, topic: str, partition: int, node: int) -> Moved:
        """Move a partition to a node; it stays there while the node is up and not drained."""

    @operation("admin", audit=("dry_run",), retry=IDEMPOTENT, wait_ms=MOVE_MS_MAX, route="written by hand")
    def balance_partitions(self, *, dry_run: bool = False) -> Moved:
        """Move partitions so that each node owns about as many; a dry run only counts them."""


class ServerOperations(Protocol):
    @operation("describe", result_filter="visible_stats", retry=READ_ONLY, route="cluster", merge="stats")
    def stats(self) -> BrokerInfo:
        """The broker at a glance: version, uptime, sizes, counts."""


# Topics and records, for front ends.

server_operation("auto_create_topic", operation("admin", topic="name", acl="create", audit=("name",)))
server_operation("metadata", operation("publish", topic="topic", creates_topic=True))
server_operation("topic_names", operation("describe", waits=False))
server_operation("cluster_id", operation("describe", waits=False))
server_operation("layout", operation("describe", topic="topic", waits=False))
server_operation("lanes", operation("describe", topic="topic", route="topic", merge="lanes"))
server_operation(
    "append_batches",
    operation("publish", topic="topic", metered="batches", creates_topic=True, route="written by hand"),
)
server_operation("append_records", operation("publish", topic="topic", metered="batches"))
server_operation("read_records", operation("read", topic="topic", waits=False))
server_operation("append_output", operation("publish", topic="topic", route="partition"))
server_operation("check_owned", operation("describe", topic="topic"))
server_operation("read_staged", operation("read"))
server_operation("staging_rooms", operation("describe", topic="topic", route="topic", merge="by_partition"))
server_operation("place_staged", operation("publish", topic="topic"))
server_operation("release_staged", operation("publish"))
server_operation("arrival", operation("read", topic="topic"))
server_operation("position", operation("describe", topic="topic", waits=False))
server_operation(
    "delete_records", operation("admin", topic="topic", acl="delete", audit=("topic",), waits=False)
)
server_operation(
    "batch_consumer",
    operation(
        "consume",
        topic="topic",
        group="group",
        creates_topic=True,
        result_filter="guarded_consumer",
        route="written by hand",
    ),
)
server_operation(
    "own_consumer",
    operation(
        "consume",
        topic="topic",
        group="group",
        creates_topic=True,
        result_filter="guarded_consumer",
    ),
)
server_operation("dead_letter", operation("read", topic="topic", route="id"))
server_operation("ack_by_lease", operation("consume", topic="topic", group="group", route="partition"))
server_operation("change_visibility", operation("consume", topic="topic", group="group", route="partition"))

# Transactions.

server_operation("new_producer_id", operation("publish", waits=False))
server_operation("prepare_transactions", operation("publish"))
server_operation(
    "init_producer",
    operation("publish", transactional_id="known_as", route="transaction coordinator"),
)
server_operation(
    "enlist",
    operation("publish", topic="topic", transactional_id="known_as", route="transaction coordinator"),
)
server_operation(
    "append_in_transaction",
    operation("publish", topic="topic", metered="batches", transactional_id="known_as"),
)
server_operation(
    "enlist_group", operation("publish", transactional_id="known_as", route="transaction coordinator")
)
server_operation(
    "enlist_commits",
    operation("consume", topic="topic", group="group", transactional_id="known_as", route="written by hand"),
)
server_operation(
    "end_transaction", operation("publish", transactional_id="known_as", route="transaction coordinator")
)
server_operation(
    "end_epoch", operation("publish", transactional_id="known_as", route="transaction coordinator")
)
# Between the nodes of a cluster.
server_operation("confirm_enlisted", operation("publish", transactional_id="known_as"))
server_operation("finish_transaction", operation("publish"))
server_operation("hold_acks", operation("publish"))
server_operation("check_acks", operation("describe"))
server_operation("stage_acks", operation("consume", transactional_id="known_as"))
server_operation(
    "stage_commits", operation("consume", topic="topic", group="group", transactional_id="known_as")
)
server_operation("held_offsets", operation("describe", topic="topic", group="group"))
server_operation("transaction", operation("describe", result_filter="visible_transaction", waits=False))
server_operation("transactional_ids", operation("describe", result_filter="visible_transactional_ids"))
server_operation("active_producers", operation("read", topic="topic", waits=False))

# Kafka's groups.

server_operation("join_group", operation("consume", group="group", route="coordinator"))
server_operation("sync_group", operation("consume", group="group", route="coordinator"))
server_operation("heartbeat_group", operation("consume", group="group", waits=False, route="coordinator"))
server_operation("leave_group", operation("consume", group="group", waits=False, route="coordinator"))
server_operation("consumer_group_heartbeat", operation("consume", group="group", route="coordinator"))
server_operation("consumer_group", operation("describe", group="group", waits=False, route="coordinator"))
server_operation("check_reader", operation("describe", group="group", waits=False, route="coordinator"))
server_operation(
    "commit_group_offsets", operation("consume", topic="topic", group="group", route="written by hand")
)
server_operation("store_offsets", operation("consume", topic="topic", group="group"))
server_operation(
    "committed_offsets", operation("describe", topic="topic", group="group", route="topic", merge="commits")
)
server_operation(
    "unsettled_offsets", operation("describe", topic="topic", group="group", route="written by hand")
)
server_operation(
    "topics_with_offsets",
    operation("describe", group="group", result_filter="visible_topics", route="cluster", merge="names"),
)
server_operation(
    "queued_topics",
    operation("describe", group="group", result_filter="visible_topics", route="cluster", merge="names"),
)
server_operation("check_share_group", operation("consume", group="group", waits=False))
server_operation(
    "forget_offsets",
    operation("consume", topic="topic", group="group", acl="delete", route="written by hand"),
)
server_operation(
    "member_groups",
    operation("describe", result_filter="visible_groups", route="cluster", merge="member_groups"),
)
server_operation("member_group", operation("describe", group="group", route="written by hand"))
server_operation("group_config", operation("describe", group="group", waits=False))
server_operation("alter_group_config", operation("admin", group="group", audit=("group",)))
server_operation("configured_groups", operation("describe", result_filter="visible_group_names", waits=False))
server_operation(
    "check_delete_group", operation("consume", group="group", acl="delete", route="written by hand")
)

# Users and ACLs as Kafka's clients administer them.

server_operation("alter_user", operation("admin", audit=("name",)))
server_operation("acls", operation("admin", acl="describe", waits=False))
server_operation("create_acls", operation("admin", audit=("acls",)))
server_operation("delete_acls", operation("admin", audit=("acls",)))
server_operation("set_scram", operation("admin", audit=("name",)))
server_operation("drop_scram", operation("admin", audit=("name",)))
server_operation("scrams", operation("admin", acl="describe", waits=False))

# Monitoring.

server_operation(
    "waiting", operation("describe", result_filter="visible_counts", route="cluster", merge="waiting")
)
server_operation(
    "overview", operation("describe", result_filter="visible_overview", route="cluster", merge="overview")
)
server_operation("metrics", operation("describe", result_filter="visible_metrics", route="written by hand"))
