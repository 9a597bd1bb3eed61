"""Nodes that share partitions through one store."""
