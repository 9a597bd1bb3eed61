"""Penstock beside the brokers that a Python user would take instead: the same work, on the same machine.

    make bench-peers                                       everything, some forty minutes
    python -m benchmarks.peers --quick                     small sizes: does it run, roughly how fast
    python -m benchmarks.peers --only W1 --system redis    these alone (again for more; a system by its begin)

    systems.py     who takes part, how each is started, and what its confirmation promises
    adapters/      one client of each, in the same few words (adapter.py)
    workloads.py   what each has to do; clients.py: the processes that do it
    report.py      JSON, the table and the plots in docs/benchmarks

Every workload reads back what was confirmed and counts what was lost and what
came twice.  Systems are only compared where their confirmation promises the
same: synced to disk before it, or not.
"""
