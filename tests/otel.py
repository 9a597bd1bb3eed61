"""OpenTelemetry as a program would have set it up, with its spans in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Spans:
    """What was traced so far."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def names(self) -> list[str]:
        """In the order they ended."""
        return [span.name for span in self._exporter.get_finished_spans()]

    def one(self, name: str) -> ReadableSpan:
        """The only one of that name."""
        [found] = [span for span in self._exporter.get_finished_spans() if span.name == name]
        return found

    def all(self, name: str) -> list[ReadableSpan]:
        """Those of that name."""
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


@contextmanager
def set_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """The provider of this program, which OpenTelemetry lets nobody take back."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with monkeypatch.context() as patch:
        patch.setattr(trace, "_TRACER_PROVIDER", provider)
        yield Spans(exporter)


def place(span: ReadableSpan) -> tuple[int, int]:
    """Trace and span."""
    return span.context.trace_id, span.context.span_id


def parent(span: ReadableSpan) -> tuple[int, int] | None:
    """Those of its parent."""
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def links(span: ReadableSpan) -> list[tuple[int, int]]:
    """Those that it is linked to."""
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def facts(span: ReadableSpan) -> dict[str, Any]:
    """Its attributes, without the word that all have in front."""
    return {name.removeprefix("messaging."): value for name, value in (span.attributes or {}).items()}
