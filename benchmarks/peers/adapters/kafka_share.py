"""Kafka's share groups, by confluent-kafka: every message is answered for, as in a queue."""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import AcknowledgeType, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from benchmarks.peers.adapter import Received, Token
from benchmarks.peers.adapters.kafka import WAIT_S, KafkaAdapter


class KafkaShareAdapter(KafkaAdapter):
    """The modes of ``KafkaAdapter``."""

    _sharing: Any = None

    def make(self, queue: str, groups: Sequence[str]) -> None:
        super().make(queue, groups)
        start = ConfigEntry(
            "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
        )
        changes = [
            ConfigResource(ResourceType.GROUP, f"share-{group}", incremental_configs=[start])
            for group in groups
        ]
        admin = AdminClient(self._address)
        for future in admin.incremental_alter_configs(changes).values():
            future.result(WAIT_S)

    def subscribe(self, queue: str, group: str) -> None:
        settings = {"group.id": f"share-{group}", "share.acknowledgement.mode": "explicit"}
        self._sharing = ShareConsumer(self._address | settings)
        self._sharing.subscribe([queue])

    def receive(self, count: int, wait_s: float) -> Received:
        del count  # As many as one fetch brings.
        found = self._sharing.poll(wait_s)
        return [(each.value() or b"", each) for each in found if each.error() is None]

    def ack(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            self._sharing.acknowledge(token)

    def nack(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            self._sharing.acknowledge(token, AcknowledgeType.RELEASE)

    def flush(self) -> None:
        super().flush()
        if self._sharing is not None:
            self._sharing.commit_sync()

    def close(self) -> None:
        if self._sharing is not None:
            self._sharing.close()


class KafkaClusterAdapter(KafkaShareAdapter):
    """Three replicas."""

    replicas = 3
