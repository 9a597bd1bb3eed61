"""What the nodes of a cluster share, as the broker sees it."""
