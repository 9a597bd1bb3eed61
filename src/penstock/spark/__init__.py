"""The data pipeline on Spark: topics as tables and streams, and the lake that continues the log.

    penstock.spark.session()          a quiet SparkSession that knows the format "penstock"
    penstock.spark.tables(spark)      every topic as a view
    penstock.spark.offsets_behind(p)  the lag of a streaming query, from its progress

Needs ``pip install penstock[spark]``.  PySpark is imported when a session is
asked for, so that looking into the lake does not load it.
"""

from penstock.spark.queries.views import tables
from penstock.spark.session import session
from penstock.spark.source.lag import offsets_behind

__all__ = ["offsets_behind", "session", "tables"]
