"""Penstock: a durable log you can work like a queue and query like a table."""
