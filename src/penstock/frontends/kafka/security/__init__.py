"""Kafka APIs of ACLs, quotas and SCRAM credentials."""
