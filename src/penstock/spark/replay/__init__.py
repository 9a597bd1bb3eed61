"""Replays: what they read, how each chunk is published, and named snapshots."""
