"""Where Spark looks for the data source ``penstock``: it imports every module named ``pyspark_*``."""

from penstock.spark.source.source import PenstockSource as DefaultSource

__all__ = ["DefaultSource"]
