"""Spark integration: topics as tables and streams, and the lake that continues the log.

    penstock.spark.session()          a SparkSession with the format "penstock" and little log output
    penstock.spark.tables(spark)      a view for every topic
    penstock.spark.offsets_behind(p)  the lag of a streaming query, from its progress

Requires ``pip install penstock[spark]``.  PySpark is imported when a session is
started, so reading the lake does not load it.
"""

from penstock.spark.queries.views import tables
from penstock.spark.session import session
from penstock.spark.source.lag import offsets_behind

__all__ = ["offsets_behind", "session", "tables"]
