"""The lake: tables in which the log goes on, under the same offsets."""
