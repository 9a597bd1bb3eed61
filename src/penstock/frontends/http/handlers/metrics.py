"""``GET /metrics``: metrics in the Prometheus text format.

    broker/observability/measuring.py ──> families ──> lines ──> text   plus process metrics

``broker/observability/metrics.py`` defines the metrics.  The lines are formatted here, because
prometheus-client takes ten times as long per line, and a hundred topics have five thousand lines.  A test
checks that its output would be the same.

Cost: a microsecond per line.  The text is sent in pieces of ``LINES`` lines, with other requests served in
between: with a thousand topics and groups it has some megabytes.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from math import inf
from typing import Any, Final

from prometheus_client import ProcessCollector, generate_latest

from penstock.broker.frontend import Family
from penstock.frontends.http.call import HttpCall

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
LINES: Final = 300  # Of a piece, and a few more: less than a millisecond.
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


async def metrics(call: HttpCall) -> AsyncGenerator[bytes, None]:
    """Metrics in the Prometheus text format; for topics and groups, those that the caller may describe."""
    return _text(await call.run(call.operations.metrics()))


async def _text(families: list[Family]) -> AsyncGenerator[bytes, None]:
    for piece in pieces(families):
        yield piece
        await asyncio.sleep(0)
    yield generate_latest(ProcessCollector(registry=None))


def pieces(families: list[Family]) -> Iterator[bytes]:
    """The text of metrics, a piece at a time."""
    lines: list[str] = []
    for family in families:
        name, kind = family.metric.name, family.metric.kind
        lines.append(f"# HELP {name} {_escaped(family.metric.meaning)}\n# TYPE {name} {kind}\n")
        write = _histogram if kind == "histogram" else _number
        for sample in _written(family, write):
            lines += sample
            if len(lines) >= LINES:
                yield "".join(lines).encode()
                lines = []
    yield "".join(lines).encode()


def _written(family: Family, write: Callable[[str, str, Any], list[str]]) -> Iterator[list[str]]:
    name = family.metric.name
    for labels, value in family.samples:
        pairs = zip(family.labels, labels, strict=True)
        yield write(name, ",".join([f'{label}="{text.translate(_ESCAPES)}"' for label, text in pairs]), value)


def _number(name: str, labels: str, value: float) -> list[str]:
    return [f"{name}{_braced(labels)} {value}\n"]


def _histogram(name: str, labels: str, value: Any) -> list[str]:
    """Its ranges, each with all below it; then how many there are, and their sum."""
    before = labels + "," if labels else ""
    lines = [
        f'{name}_bucket{{{before}le="{"+Inf" if bound == inf else bound}"}} {count}\n'
        for bound, count in value.buckets
    ]
    lines.append(f"{name}_count{_braced(labels)} {value.buckets[-1][1]}\n")
    lines.append(f"{name}_sum{_braced(labels)} {value.sum}\n")
    return lines


def _braced(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


def _escaped(meaning: str) -> str:
    """Of what it means, no quotes are escaped."""
    return meaning.replace("\\", r"\\").replace("\n", r"\n")
