"""PUBLIC: what tests of our users, and our own, need."""
