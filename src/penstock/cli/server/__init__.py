"""Commands that run, check or configure a server."""
