"""What a cluster costs, and how quickly it recovers: ``python -m benchmarks.cluster``."""
