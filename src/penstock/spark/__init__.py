"""The data pipeline on Spark: topics as tables and streams, and the lake that continues the log.

    penstock.spark.session()          a quiet SparkSession that knows the format "penstock"
    penstock.spark.tables(spark)      every topic as a view

Needs ``pip install penstock[spark]``.  A name is imported when it is first
used, so that looking into the lake does not load PySpark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spark.session import session

_PLACES = {"session": "session"}

__all__ = ["session"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'penstock.spark' has no attribute {name!r}")
    # A function and its module share a name, and importing the module sets it: so it is set again here.
    value = globals()[name] = getattr(import_module(f"penstock.spark.{_PLACES[name]}"), name)
    return value
