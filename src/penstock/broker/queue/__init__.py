"""Queue groups: leases, acknowledgements and dead letters."""
