"""Who comes through the doors of a server, and what each may do there.  docs/security.md describes it."""
