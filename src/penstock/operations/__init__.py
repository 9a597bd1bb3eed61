"""The operations of a broker as clients call them by name."""
