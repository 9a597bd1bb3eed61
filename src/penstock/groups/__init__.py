"""Stream groups: membership, assignment and committed offsets, as plain state machines."""
