"""Configuration: what a program or an operator may set, and how a server loads it."""
