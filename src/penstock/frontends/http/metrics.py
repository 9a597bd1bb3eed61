"""``GET /metrics``: what the broker measures, as Prometheus reads it.

    broker/metrics.py ──> families ──> prometheus-client ──> text      with those of the process

What there is and what it means is said in ``broker/metrics.py`` alone.  The text is
written in a thread: with a thousand topics and groups it takes longer than others
should wait.
"""

import asyncio
from collections.abc import Iterable, Iterator
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
from penstock.frontends.http.call import Call

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


async def metrics(call: Call) -> bytes:
    """All metrics, as text for Prometheus; of topics and groups, those that may be described."""
    families = await call.run(call.operations.metrics())
    return await asyncio.to_thread(page, families)


def page(families: Iterable[Family]) -> bytes:
    """The whole text."""
    return generate_latest(Collected(families))


class Collected(Collector):
    """What was collected, in the classes of prometheus-client."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        """Everything, one metric after the other."""
        for family in self._families:
            yield MAKERS[family.metric.kind](family)
        yield from self._process.collect()


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


MAKERS: Final = {"counter": _counter, "gauge": _gauge, "histogram": _histogram}
