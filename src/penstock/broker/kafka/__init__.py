"""State of the Kafka protocol: group coordination, group configuration, and transactions of all clients."""
