"""Topics and broker state as tables of Spark SQL, and query results."""
