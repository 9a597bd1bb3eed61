"""Topics and their groups: created, changed, grown and deleted."""
