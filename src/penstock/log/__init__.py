"""Append-only storage of one partition: segments, indexes, group commit, retention."""
