"""Kafka's wire protocol: bytes <-> typed values.  No socket, no broker, no clock."""
