"""``GET /metrics``: what the broker measures, as Prometheus reads it.

    broker/measuring.py ──> families ──> prometheus-client ──> text      with those of the process

What there is and what it means is said in ``broker/metrics.py`` alone.  The text is
written in pieces of a millisecond or two, and between them others have a turn: with
a thousand topics and groups it is some megabytes.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from math import isinf
from typing import Final

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from penstock.broker.measuring import Family
from penstock.broker.metrics import Kind
from penstock.frontends.http.call import Call

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# Samples of a piece; one of a histogram is as many lines as it has ranges.
SAMPLES: Final[dict[Kind, int]] = {"counter": 200, "gauge": 200, "histogram": 10}


async def metrics(call: Call) -> AsyncGenerator[bytes, None]:
    """All metrics, as text for Prometheus; of topics and groups, those that may be described."""
    return _text(await call.run(call.operations.metrics()))


async def _text(families: list[Family]) -> AsyncGenerator[bytes, None]:
    for family in families:
        for piece in pieces(family):
            yield piece
            await asyncio.sleep(0)
    yield generate_latest(ProcessCollector(registry=None))


def pieces(family: Family) -> Iterator[bytes]:
    """The text of one metric; only the first piece says its kind and what it means."""
    size = SAMPLES[family.metric.kind]
    for start in range(0, max(len(family.samples), 1), size):
        some = family._replace(samples=family.samples[start : start + size])
        text = generate_latest(Collected(some))
        yield text if start == 0 else text.split(b"\n", 2)[2]


class Collected(Collector):
    """What was collected, in a class of prometheus-client."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        """The one metric."""
        yield MAKERS[self._family.metric.kind](self._family)


def _counter(family: Family) -> Metric:
    made = CounterMetricFamily(family.metric.name, family.metric.meaning, labels=family.labels)
    for labels, value in family.samples:
        made.add_metric(labels, value)
    return made


def _gauge(family: Family) -> Metric:
    made = GaugeMetricFamily(family.metric.name, family.metric.meaning, labels=family.labels)
    for labels, value in family.samples:
        made.add_metric(labels, value)
    return made


def _histogram(family: Family) -> Metric:
    made = HistogramMetricFamily(family.metric.name, family.metric.meaning, labels=family.labels)
    for labels, value in family.samples:
        buckets = [("+Inf" if isinf(bound) else str(bound), count) for bound, count in value.buckets]
        made.add_metric(labels, buckets, value.sum)
    return made


MAKERS: Final[dict[Kind, Callable[[Family], Metric]]] = {
    "counter": _counter,
    "gauge": _gauge,
    "histogram": _histogram,
}
