"""The consuming half of a client."""
