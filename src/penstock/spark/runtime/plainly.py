"""Errors of ours that Spark shows: one sentence, without the traceback of the process it was raised in.

Spark calls a data source in Python processes of its own, and tells of an error there by the whole traceback.
An error of ours says what is wrong and what to do, so the frames above it are noise.  PySpark leaves them out
if this variable is set when the process reports the error; the process ends after that, so nobody else's
errors are cut short.
"""

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from penstock.errors import PenstockError

HIDE: Final = "SPARK_HIDE_TRACEBACK"
WORKERS: Final = ("pyspark.", "penstock.spark.")  # The main modules of Spark's processes.

P = ParamSpec("P")
T = TypeVar("T")


def plainly(method: Callable[P, T]) -> Callable[P, T]:
    """For a method that Spark calls."""

    @wraps(method)
    def told(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return method(*arguments, **options)
        except PenstockError:
            if _in_a_worker():
                os.environ[HIDE] = "1"
            raise

    return told


def _in_a_worker() -> bool:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.startswith(WORKERS)
