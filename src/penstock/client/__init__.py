"""A broker at the end of a connection: ``penstock.connect`` and ``penstock.aio.connect``."""
