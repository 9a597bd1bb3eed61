"""From files back to state: opening partitions, replaying journals, producer snapshots."""
