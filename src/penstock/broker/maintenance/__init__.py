"""Background work: retention, compaction, snapshots, disk checks and restored ranges."""
