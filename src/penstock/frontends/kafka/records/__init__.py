"""Kafka APIs of records: Produce, Fetch, ListOffsets and transactions."""
