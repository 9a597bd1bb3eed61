"""Bytes to values and back, with no sockets and no files."""
