"""The one table of Kafka's APIs: what is offered here, and who answers it.

Each family of APIs has a module with its handlers and a list of its own; ApiVersions lists all
of them.
"""

from collections.abc import Mapping
from typing import Final

from penstock.frontends.kafka import cluster, metadata, sasl
from penstock.frontends.kafka.call import Api
from penstock.frontends.kafka.configs import configs, replicas, topics
from penstock.frontends.kafka.groups import (
    acknowledgements,
    consumer_groups,
    group_admin,
    offsets,
    share_groups,
    share_offsets,
    streams_groups,
)
from penstock.frontends.kafka.groups import membership as groups
from penstock.frontends.kafka.groups import share_fetch as share
from penstock.frontends.kafka.records import fetch, positions, produce, transaction_admin, transactions
from penstock.frontends.kafka.security import acls, quotas, scram_admin

FAMILIES: Final = (
    cluster, sasl, metadata, produce, fetch, positions, topics, configs, replicas, groups, group_admin,
    offsets, consumer_groups, share_groups, share_offsets, share, acknowledgements, streams_groups,
    transactions, transaction_admin, acls, scram_admin, quotas,
)  # fmt: skip

APIS: Final[Mapping[int, Api]] = {api.request.KEY: api for family in FAMILIES for api in family.APIS}
