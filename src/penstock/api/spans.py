"""Spans for OpenTelemetry, where a program has it set up; otherwise nothing at all.

    program with OpenTelemetry ──> traced(operations) ──> TracedOperations (api/otel.py) ──> operations
    program without            ──> traced(operations) ──> operations

It is decided once, when a broker is opened or connected to; and each time by a
client that publishes past its operations (``begin_publish``).  Nothing is imported
unless the program has imported it, and has given it somewhere to send spans.
"""

import sys
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from penstock.api.otel import Sending

T = TypeVar("T")


def is_set_up() -> bool:
    """Whether this program has given OpenTelemetry somewhere to send spans."""
    trace = sys.modules.get("opentelemetry.trace")
    return trace is not None and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def traced(operations: T) -> T:
    """The operations of a broker, with spans where they are wanted."""
    return cast("T", _otel().TracedOperations(operations)) if is_set_up() else operations


def begin_publish(topic: str, messages: list[Any]) -> "Sending | None":
    """The span of a publish, with the messages that carry it; None if spans are off."""
    if "opentelemetry.trace" not in sys.modules or not is_set_up():
        return None
    return cast("Sending", _otel().Sending(topic, messages))


def _otel() -> Any:
    import penstock.api.otel as otel  # Only now: it needs OpenTelemetry, which most programs do not have.

    return otel
