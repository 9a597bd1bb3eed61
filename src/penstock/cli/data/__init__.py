"""Commands on topics, groups and messages."""
