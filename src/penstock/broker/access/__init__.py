"""API keys, users, ACLs and the audit log of a broker."""
