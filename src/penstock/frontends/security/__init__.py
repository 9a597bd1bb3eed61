"""Authentication, permissions, quotas and TLS of a server (docs/security.md)."""
