"""Replays: their plans, the publishing of their chunks, and named snapshots."""
