"""A plain data directory becomes the first node of a cluster, and back."""
