"""The publishing half of a client."""
