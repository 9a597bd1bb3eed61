"""The Kafka protocol, for Kafka's clients as they are."""
