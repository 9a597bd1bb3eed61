"""The lake: Delta tables that continue the log, with the same offsets."""
