"""Kafka's messages of admin clients."""
