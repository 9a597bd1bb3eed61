"""Accepting messages: validation, partitioning, appending, schedules and staged publishes."""
