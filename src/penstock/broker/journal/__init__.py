"""Append-only logs of decisions: deliveries, staged publishes and transactions."""
