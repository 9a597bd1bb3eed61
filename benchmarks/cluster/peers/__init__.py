"""Three nodes of Penstock beside three nodes of other brokers, with equal durability, in one run.

    make bench-cluster-peers                             everything, at most 12 minutes, and the page
    python -m benchmarks.cluster.peers --quick           small sizes, once
    python -m benchmarks.cluster.peers --system nats     these alone (again for more; a system by its begin)

    clusters.py    who takes part, and how three nodes of each are started and killed
    work.py        what they have to do, and what is measured
    report.py      the JSON, the table and the plot in docs/benchmarks

The clients are those of ``benchmarks.peers``.
"""
