"""Offset ranges and records as Arrow, shared by the source and the lake."""
