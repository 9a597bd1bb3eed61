"""State that only Kafka's protocol needs: group coordination, transactions, group configuration."""
