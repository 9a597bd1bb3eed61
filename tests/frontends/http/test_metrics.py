"""What Prometheus reads."""

import asyncio
from collections.abc import Iterator
from math import isinf
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import Metric as PrometheusMetric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from tests.frontends.http.browser import Answer, Browser, Place, place
from tests.frontends.http.test_logins import bearer

from penstock.broker.observability.measuring import Distribution, Family
from penstock.broker.observability.metrics import OF_NODE, SECTIONS, Kind, Metric
from penstock.config.server import ListenSettings, ServerConfig, ServerSettings
from penstock.frontends.http.handlers.metrics import LINES, pieces
from penstock.frontends.serve import Server
from penstock.model.access import Grant

pytestmark = pytest.mark.usefixtures("quick_hashes")

OF_SERVER = [section for section in SECTIONS if section is not OF_NODE]  # It is in no cluster.

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def series(answer: Answer) -> Series:
    """By name and labels, as another program understands it."""
    assert (answer.status, answer.headers["content-type"]) == (
        200,
        "text/plain; version=0.0.4; charset=utf-8",
    )
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


def topics(found: Series) -> set[str]:
    return {dict(labels)["topic"] for _, labels in found if "topic" in dict(labels)}


async def test_the_page_has_every_metric_with_its_kind_and_meaning(http: Place) -> None:
    await http.broker.publish("orders", b"x")
    async with await http.broker.consumer("orders", group="billing") as consumer:
        await (await consumer.receive())[0].reject("no good")

        text = (await http.ask("GET", "/metrics")).body.decode()

    told = {
        line.split(" ", 3)[2]: line.split(" ", 3)[3] for line in text.splitlines() if line[:6] == "# HELP"
    }
    kinds = {line.split(" ")[2]: line.split(" ")[3] for line in text.splitlines() if line[:6] == "# TYPE"}
    assert told == {metric.name: metric.meaning for section in OF_SERVER for metric in section.metrics}
    assert kinds == {metric.name: metric.kind for section in OF_SERVER for metric in section.metrics}


async def test_numbers_are_those_of_the_broker(http: Place) -> None:
    await http.broker.publish_batch("orders", [b"x"] * 3)
    async with await http.broker.consumer("orders", group="billing") as consumer:
        await consumer.ack(await consumer.receive(2))

        found = series(await http.ask("GET", "/metrics"))

    of_topic, of_group = {("topic", "orders")}, {("topic", "orders"), ("group", "billing")}
    assert found["penstock_topic_published_total", frozenset(of_topic)] == 3
    assert found["penstock_group_acked_total", frozenset(of_group)] == 2
    assert found["penstock_group_lag", frozenset(of_group)] == 1
    assert found["penstock_queue_latency_seconds_count", frozenset(of_group)] == 2
    assert found["penstock_queue_latency_seconds_bucket", frozenset(of_group | {("le", "+Inf")})] == 2
    assert found["process_resident_memory_bytes", frozenset()] > 1_000_000


async def test_a_metric_of_many_topics_comes_in_pieces_and_says_once_what_it_is(http: Place) -> None:
    names = {f"topic-{number}" for number in range(LINES // 10)}
    for name in names:
        await http.broker.create_topic(name)
        await http.broker.create_group(name, "billing")

    answer = await http.ask("GET", "/metrics")

    assert topics(series(answer)) == {"orders"} | names
    for section in OF_SERVER:
        for metric in section.metrics:
            assert answer.body.count(f"# TYPE {metric.name} ".encode()) == 1


HOSTILE = 'a "quoted" \\ name\nof two lines, ü'


def families_of_all_kinds() -> list[Family]:
    times = Distribution([(0.005, 1), (1.0, 3), (2500.0, 3), (float("inf"), 4)], 7.25)
    samples: dict[Kind, list[tuple[tuple[str, ...], Any]]] = {
        "counter": [(("a", "b"), 0), (("a", HOSTILE), 12_345_678_901)],
        "gauge": [(("a", "b"), -1.5), (("a", HOSTILE), 1e-07)],
        "histogram": [(("a", "b"), times), (("a", HOSTILE), times)],
    }
    return [
        Family(Metric(f"a_{kind}_total", kind, f"{HOSTILE} {kind}", lambda _: 0), ("topic", "group"), found)
        for kind, found in samples.items()
    ] + [
        Family(Metric("bare", "gauge", "Bare.", lambda _: 0), (), [((), 3)]),
        Family(Metric("bare_times", "histogram", "Bare.", lambda _: 0), (), [((), times)]),
        Family(Metric("none", "gauge", "There is none.", lambda _: 0), ("topic",), []),
    ]


class Theirs(Collector):
    """The same in the classes of prometheus-client."""

    def collect(self) -> Iterator[PrometheusMetric]:
        for metric, labels, samples in families_of_all_kinds():
            made: Any = FAMILIES[metric.kind](metric.name, metric.meaning, labels=labels)
            for values, value in samples:
                if isinstance(value, Distribution):
                    buckets = [
                        ("+Inf" if isinf(bound) else str(bound), count) for bound, count in value.buckets
                    ]
                    made.add_metric(values, buckets, value.sum)
                else:
                    made.add_metric(values, value)
            yield made


FAMILIES = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}


def test_the_lines_say_what_those_of_prometheus_client_would() -> None:
    ours = b"".join(pieces(families_of_all_kinds())).decode()

    theirs = generate_latest(Theirs()).decode()

    assert [line for line in ours.splitlines() if line[0] == "#"] == [
        line for line in theirs.splitlines() if line[0] == "#"
    ]
    assert list(text_string_to_metric_families(ours)) == list(text_string_to_metric_families(theirs))


def test_a_piece_has_an_end() -> None:
    samples: list[tuple[tuple[str, ...], Any]] = [((str(number),), number) for number in range(3 * LINES)]
    family = Family(Metric("many", "gauge", "Many.", lambda _: 0), ("topic",), samples)

    found = list(pieces([family]))

    assert len(found) == 4
    assert max(piece.count(b"\n") for piece in found) <= LINES + 2


async def test_a_key_sees_the_topics_and_groups_that_it_may_describe() -> None:
    async with place(authentication=True) as http:
        await http.broker.create_topic("secret")
        for group in ("billing", "audit"):
            await http.broker.create_group("orders", group)
        await http.broker.create_group("secret", "billing")
        mine = await http.broker.create_key(
            "mine", [Grant(role="consumer", topics=("orders",), groups=("billing",))]
        )

        all_of_it = series(await http.ask("GET", "/metrics", headers=await bearer(http, "reader")))
        some = series(await http.ask("GET", "/metrics", headers={"authorization": f"Bearer {mine.key}"}))
        nothing = await http.ask("GET", "/metrics")

    assert topics(all_of_it) == {"orders", "secret"}
    assert topics(some) == {"orders"}
    assert {dict(labels).get("group") for _, labels in some} == {None, "billing"}
    assert some["penstock_topics", frozenset()] == 2
    assert nothing.code == "UNAUTHENTICATED"


async def test_a_server_tells_its_connections_and_tasks() -> None:
    listen = ListenSettings(native="127.0.0.1:0", text="off", status="off", http="127.0.0.1:0", kafka="off")
    async with await Server.open(
        ServerConfig(listen=listen, server=ServerSettings(data=":memory:"))
    ) as server:
        browser = Browser(*await asyncio.open_connection(*server.addresses["http"]))
        found = series(await browser.ask("GET", "/metrics", headers={"host": "localhost"}))
        await browser.close()

    assert found["penstock_connections", frozenset()] == 1
    assert found["penstock_tasks", frozenset()] >= 2  # The broker's timekeeper, and the request itself.


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_only_get_is_answered(http: Place, method: str) -> None:
    assert (await http.ask(method, "/metrics")).code == "METHOD_NOT_ALLOWED"
