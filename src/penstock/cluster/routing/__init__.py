"""Forwards what a node is asked to the nodes that own it, below the permission checks."""
