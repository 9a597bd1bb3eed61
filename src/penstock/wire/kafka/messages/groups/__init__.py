"""Kafka's messages about groups."""
