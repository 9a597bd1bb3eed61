"""The pipelines: small PySpark programs around a broker, each a module of this package.

    penstock pipeline run NAME ──> runner.py ──> NAME.py: run(settings, context)
                                       │
             progress line, signals    └──> __pipelines: what it is doing, and who asked it to stop

A pipeline is a module with two names:

    class Settings(msgspec.Struct, frozen=True, kw_only=True): ...    what its TOML file may say
    def run(settings: Settings, context: Context) -> None: ...        the work

``run`` returns when the work is done, and soon after ``context.stopping`` is
set; it raises when it cannot go on.  It may be killed at any point, so what it
has done is known from what it has written (offsets, the lake, a checkpoint)
and never from its state in ``__pipelines``, which is for people.

Settings have their units in their names: ``wait_ms`` is written ``wait = "5s"``,
``file_bytes`` takes ``"128MB"``, a ``datetime`` takes a time or how long ago.

Nothing here, in ``settings``, ``states`` and ``progress`` imports PySpark, so
that looking at pipelines is quick and works without it.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from penstock.errors import ExtraMissing, InvalidValue

if TYPE_CHECKING:
    from penstock.spark.pipelines.run.context import Context

# Name of the pipeline, which is also its module here -> what it does.
PIPELINES: Final = {
    "archive": "Topics to the lake, and the lake in good order.",
    "replay": "From lake and log back to a topic or a group.",
    "rollup": "Counts and latencies per minute, as tables of the lake.",
    "dead_letters": "Dead letters of a period by error, as a table and a report.",
    "transform": "Your own: topics, then SQL or a function, then a topic or a table.",
    "rehearse": "Run a handler over a past range, and compare with what happened.",
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
        raise InvalidValue(name="pipeline", value=name, why=f"there are {', '.join(PIPELINES)}")
    return known


def load(name: str) -> Pipeline:
    """The module of a pipeline; imports PySpark, if the pipeline does."""
    if find_spec("pyspark") is None:
        raise ExtraMissing(what="PySpark", extra="spark")
    return cast("Pipeline", import_module(f"{__name__}.{check_pipeline(name)}"))
