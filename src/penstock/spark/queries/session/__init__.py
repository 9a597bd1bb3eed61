"""Queries on a warm Spark session of another process, through a socket: the server and its client."""
