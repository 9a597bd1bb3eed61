"""The command line; each command is a module."""
