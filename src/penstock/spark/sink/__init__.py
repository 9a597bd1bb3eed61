"""Writing DataFrames to topics."""
