"""Kafka's requests and responses, one class each: the classes are the field tables.

Written once from the schemas of Kafka 4.3, as far as we offer the versions, and kept as ordinary source
since.  A field has Kafka's name in snake_case and Kafka's default; ``penstock.wire.kafka.fields`` says how a
table is read.
"""
