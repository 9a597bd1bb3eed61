"""What every Spark process needs: connections, Java, shipping code and readable errors."""
