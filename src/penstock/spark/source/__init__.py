"""The data source ``penstock``: topics as tables and streams."""
