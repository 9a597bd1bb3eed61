"""Stores that a cluster commits to: one object per name, created at most once.

    base.py         the five operations, and the rules for names
    directory.py    file://          a directory of this machine, or NFSv4
    objects.py      s3:// gs:// az://   object storage, through obstore
    postgresql.py   postgresql://    a table, through psycopg
    etcd.py         etcd://          etcd, through its JSON gateway
    idle.py         idle connections
    opening.py      opens the store of a URL
    probe.py        checks whether a store is safe to commit to (rule 27)

The broker does not import this package.  Rule numbers refer to docs/cluster.md.
"""
