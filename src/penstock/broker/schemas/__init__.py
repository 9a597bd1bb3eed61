"""The schema registry of a broker."""
