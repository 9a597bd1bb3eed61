"""Checks, repairs, retention, compaction and restores of one log."""
