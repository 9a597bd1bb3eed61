"""Stream groups: assignments, committed offsets and reads by offset."""
