"""The cluster core: nodes that share partitions through one store, without I/O of its own.

    objects.py      names, envelope and the one way to create an object whose outcome matters (rules 1-3)
    wal.py          what is in a WAL entry and in a tombstone
    metadata.py     the state that all nodes agree on, and the entries that change it
    agreement.py    the metadata log: follow it, append to it, start from a snapshot
    commit.py       commit rounds of this incarnation (rules 5-8), and the delivery lease (rule 25)
    sealing.py      end the WAL of a failed incarnation (rules 13-16)
    loading.py      load a partition from its checkpoint and WAL ranges (rules 17-19)
    checkpoints.py  write checkpoints (rule 26)
    collecting.py   delete what nothing refers to (rules 21-23)
    node.py         one incarnation: joins, follows the metadata; opens, moves and closes partitions
    host.py         the interface of the broker to the core

Read them in this order.  Everything runs on one event loop and accesses the outside only through four
injected objects: a ``Store`` of coroutines, a ``Clock``, a ``Random`` and a ``Host`` (the broker).  The
simulator in tests/cluster/core runs the same code in virtual time on a store that loses, delays and repeats
requests.

The broker does not import this package.  The rules are in docs/format/cluster.md.
"""
