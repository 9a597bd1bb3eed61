"""Running a worker function over stored messages without side effects on the broker."""
