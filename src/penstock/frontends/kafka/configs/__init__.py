"""Kafka APIs of topics and their configuration."""
