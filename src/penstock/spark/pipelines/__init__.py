"""Pipelines: small PySpark programs around a broker, each a module of this package.

    penstock pipeline run NAME ──> run/runner.py ──> NAME.py: run(settings, context)
                                       │
             progress line, signals    └──> __pipelines: the run's state, and requests to stop

A pipeline is a module with two names:

    class Settings(msgspec.Struct, frozen=True, kw_only=True): ...    what its TOML file may contain
    def run(settings: Settings, context: Context) -> None: ...        the work

``run`` returns when the work is done, or soon after ``context.stopping`` is set, and
raises if it cannot continue.  It may be killed at any time, so its progress is derived
from what it has written (offsets, the lake, a checkpoint), never from its state in
``__pipelines``, which is only informative.

Settings have units in their names: ``wait_ms`` is written ``wait = "5s"``, ``file_bytes``
takes ``"128MB"``, a ``datetime`` takes a time or an age.

This module, ``settings``, ``states`` and ``progress`` do not import PySpark, so listing
pipelines is fast and works without it.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from penstock.errors import ExtraMissing, InvalidValue

if TYPE_CHECKING:
    from penstock.spark.pipelines.run.context import Context

# Name of the pipeline, which is also its module here -> what it does.
PIPELINES: Final = {
    "archive": "Archive topics to the lake, and maintain its tables.",
    "replay": "Replay messages from lake and log to a topic or a group.",
    "rollup": "Counts and latencies per minute, as a table of the lake.",
    "dead_letters": "Group the dead letters of a period by error, as a table and a report.",
    "transform": "Process topics with SQL or a function into a topic or a table.",
    "rehearse": "Run a handler over past messages, and compare with what happened.",
    "sql": "Keep Spark running, so that `penstock sql` on the same machine answers within a second.",
}


class Pipeline(Protocol):
    """What a module of this package offers."""

    Settings: Any

    def run(self, settings: Any, context: "Context") -> None:
        """Do the work; see the top of this module."""
        ...


def check_pipeline(name: str) -> str:
    """Return ``name`` if there is such a pipeline; ``dead-letters`` is one way to write ``dead_letters``."""
    known = name.replace("-", "_")
    if known not in PIPELINES:
        raise InvalidValue(name="pipeline", value=name, why=f"the pipelines are {', '.join(PIPELINES)}")
    return known


def load(name: str) -> Pipeline:
    """The module of a pipeline; imports PySpark, if the pipeline does."""
    if find_spec("pyspark") is None:
        raise ExtraMissing(what="PySpark", extra="spark")
    return cast("Pipeline", import_module(f"{__name__}.{check_pipeline(name)}"))
