"""What front ends may use of the broker: this module and nothing else in the package.

An import contract in pyproject.toml enforces it, so that the inside of the broker can change without the
front ends noticing.  Operations go through ``EmbeddedAsyncBroker`` and ``LocalOperations``; the rest are the
types of their arguments and results, and the driver's callbacks.
"""

from penstock.broker.access.access import (
    PASSWORD_COST,
    PASSWORD_LENGTH_MAX,
    Access,
    Credential,
    StoredKey,
    StoredUser,
)
from penstock.broker.access.audit import DONE, Audit
from penstock.broker.access.scram import HASHES, ITERATIONS, SALT_BYTES, Scram
from penstock.broker.aio import EmbeddedAsyncBroker, open_growing
from penstock.broker.batches import BatchConsumer
from penstock.broker.drivers.loop import Running, Then, ignore_result
from penstock.broker.health.loop_lag import Lag
from penstock.broker.health.verdict import duration, judge_pipeline
from penstock.broker.observability.measuring import Family
from penstock.broker.operations import LocalConsumer, LocalOperations
from penstock.broker.publish.publishing import Appended
from penstock.broker.registry.staging_peers import StagingRoom
from penstock.broker.steps import Steps
from penstock.broker.stream.commits import METADATA_BYTES_MAX
from penstock.broker.stream.fetching import At, Layout, Position, RawFetched

__all__ = [
    "DONE",
    "HASHES",
    "ITERATIONS",
    "METADATA_BYTES_MAX",
    "PASSWORD_COST",
    "PASSWORD_LENGTH_MAX",
    "SALT_BYTES",
    "Access",
    "Appended",
    "At",
    "Audit",
    "BatchConsumer",
    "Credential",
    "EmbeddedAsyncBroker",
    "Family",
    "Lag",
    "Layout",
    "LocalConsumer",
    "LocalOperations",
    "Position",
    "RawFetched",
    "Running",
    "Scram",
    "StagingRoom",
    "Steps",
    "StoredKey",
    "StoredUser",
    "Then",
    "duration",
    "ignore_result",
    "judge_pipeline",
    "open_growing",
]
