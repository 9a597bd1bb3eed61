"""Errors of a cluster: who owns a partition, and the store that nodes commit to."""

from penstock.errors.base import RequestError, UnavailableError


class NotOwner(UnavailableError):
    """Another node of the cluster owns the partition; nothing was written.

    Cause: the partition has moved, or this node has not loaded it yet.
    Do: fetch the owners again and send the request to the owner, with the same producer id and sequence
        numbers; Penstock's client does so automatically.
    """

    code = "NOT_OWNER"
    sentence = (
        "partition {partition} of topic {topic!r} is not on this node, but on node {owner} since epoch "
        "{epoch}; fetch the owners again and retry there"
    )
    topic: str
    partition: int
    owner: int  # -1: no node, or it is not known which.
    epoch: int


class NotCached(UnavailableError):
    """The messages are not on this node's disk; they are being fetched from the cluster's store.

    Cause: they are old, and the node keeps only ``cluster.cache_bytes`` on its disk, or has just taken over
        the partition.
    Do: try again.  Reads and consumers wait for the fetch, so this error means that it takes long.
    """

    code = "NOT_CACHED"
    sentence = "{path!r} is being fetched from the store of the cluster; try again"
    path: str


class StoreUnavailable(UnavailableError):
    """The store did not answer, so the outcome of the request is unknown.

    Cause: the store is down, overloaded or unreachable from this machine.
    Do: check the store and the network.  A node that has started repeats the request until it knows
        the outcome; until then nothing is acknowledged.
    """

    code = "STORE_UNAVAILABLE"
    sentence = (
        "the store {store} did not answer: {why}; check that it is up and can be reached from this machine"
    )
    store: str
    why: str


class StoreRefused(RequestError):
    """The store answered, and refused the request.

    Cause: wrong credentials, missing rights, a bucket or database that does not exist, or an invalid option.
    Do: correct the named problem; ``penstock cluster probe URL`` checks a store without a cluster.
    """

    code = "STORE_REFUSED"
    sentence = "the store {store} refused the request: {why}"
    store: str
    why: str


class StoreUnsafe(RequestError):
    """The store breaks a guarantee that a cluster relies on, so acknowledged messages could be lost.

    Cause: two writers created the same name, a write was not visible to the next read, or PostgreSQL has no
        synchronous standby.
    Do: use a store that passes ``penstock cluster probe URL``; docs/cluster.md lists them.
    """

    code = "STORE_UNSAFE"
    sentence = "the store {store} is not safe for a cluster: {why}"
    store: str
    why: str


class ClusterMismatch(RequestError):
    """The store belongs to another cluster.

    Cause: a wrong ``--store``, or a wrong ``--cluster``.
    Do: use the name of the cluster that is in the store, or another path in it for a new cluster.
    """

    code = "CLUSTER_MISMATCH"
    sentence = "the store {store} belongs to the cluster '{found}', not to '{wanted}'"
    store: str
    found: str
    wanted: str


class ClusterExists(RequestError):
    """There is a cluster in the store already, so a data directory cannot become a new one there.

    Cause: the store is in use, or a cluster that was turned back into a data directory has left its objects.
    Do: use another path in the store; or start this node with an empty directory to join the cluster.
    """

    code = "CLUSTER_EXISTS"
    sentence = "the cluster '{cluster}' is in {store} already; give the new cluster another path in the store"
    cluster: str
    store: str


class ClusterMissing(RequestError):
    """There is no cluster in the store.

    Cause: a wrong ``--store``, or none of its nodes was ever started.
    Do: use the URL that the nodes of the cluster are started with.
    """

    code = "CLUSTER_MISSING"
    sentence = "there is no cluster in {store}"
    store: str


class ClusterLeft(RequestError):
    """The cluster was turned back into a plain data directory, and has ended.

    Cause: ``penstock cluster leave``.
    Do: start the server on that directory, without ``--cluster``; use another path in the store for a new
        cluster.
    """

    code = "CLUSTER_LEFT"
    sentence = "the cluster '{cluster}' was turned back into the data directory of node {node}, and has ended"
    cluster: str
    node: int


class ClusterRunning(RequestError):
    """A node of the cluster is running, so the cluster cannot be turned back into a data directory.

    Cause: a node was not stopped, or has been started again.
    Do: stop all nodes with SIGTERM, and repeat the command.
    """

    code = "CLUSTER_RUNNING"
    sentence = "node {node} is running; stop all nodes of the cluster first"
    node: int


class ClusterTooNew(RequestError):
    """The cluster uses a format that this version of Penstock does not know.

    Cause: newer nodes have changed the format of the cluster.
    Do: install the version that the other nodes run.
    """

    code = "CLUSTER_TOO_NEW"
    sentence = (
        "the cluster '{cluster}' uses format {format}, and this version of Penstock knows up to {known}"
    )
    cluster: str
    format: int
    known: int


class NodeInUse(RequestError):
    """Another process runs as this node.

    Cause: two servers were started with the same ``--node``.
    Do: give each node its own number.  A restarted node takes its number back automatically.
    """

    code = "NODE_IN_USE"
    sentence = "node {node} is running at {address}; give this one another number with --node"
    node: int
    address: str


class ClockDifference(RequestError):
    """The wall clock of this machine differs too much from that of another node.

    Cause: a machine without time synchronisation.  Retention, delays and expiry follow the wall clock, so
        messages would be deleted or delivered at the wrong time after a partition moved.
    Do: run NTP or chrony on every node.
    """

    code = "CLOCK_DIFFERENCE"
    sentence = "the clocks of this machine and of node {node} differ by {seconds} s; the limit is {most} s"
    node: int
    seconds: int
    most: int


class NotACluster(RequestError):
    """The server is not a node of a cluster.

    Cause: it was started without ``--cluster``.
    Do: connect to a node of the cluster; ``--server`` or PENSTOCK_SERVER says which.
    """

    code = "NOT_A_CLUSTER"
    sentence = "this server was started without --cluster, so it is not a node of a cluster ({operation})"
    operation: str


class NodeNotFound(RequestError):
    """The cluster has no node of that number.

    Cause: a typing error, or the node was removed.
    Do: ``penstock cluster nodes`` lists the nodes.
    """

    code = "NODE_NOT_FOUND"
    sentence = "the cluster has no node {node}; its nodes are {known}"
    node: int
    known: str


class NodeRunning(RequestError):
    """A node that is running cannot be removed.

    Cause: its process runs, or it ended a moment ago and the others have not noticed yet.
    Do: stop the node first (SIGTERM), which hands its partitions over.
    """

    code = "NODE_RUNNING"
    sentence = "node {node} is running; stop it first, then remove it"
    node: int


class NodeUnfit(RequestError):
    """A node cannot be used for the request.

    Cause: a partition was to move to a node that is stopped or being drained, or the only node that may own
        partitions was to be drained.
    Do: choose another node, start it, or end its draining with ``penstock cluster drain N --undo``.
    """

    code = "NODE_UNFIT"
    sentence = "node {node} cannot do that: {why}"
    node: int
    why: str


class PartitionMoved(RequestError):
    """The owner of a partition changed while it was to be moved.

    Cause: a node failed, or another operator moved it.
    Do: look at the owners with ``penstock cluster status``, and repeat the request if it still makes sense.
    """

    code = "PARTITION_MOVED"
    sentence = (
        "partition {partition} of topic {topic!r} has moved to node {owner}; check the owners, and try again"
    )
    topic: str
    partition: int
    owner: int  # -1: no node.
