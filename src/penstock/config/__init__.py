"""Configuration of brokers, topics, groups and servers, and loading it from file, environment and flags."""
