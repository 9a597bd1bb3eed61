"""One file for each system."""
