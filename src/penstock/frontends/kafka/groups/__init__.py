"""Kafka APIs of groups: membership, offsets and share groups."""
