"""Dead letters of a period by error, as a table and as a report."""

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.clock import SystemClock
from penstock.errors import LakeUnusable
from penstock.spark.pipelines import dead_letters
from penstock.spark.pipelines.run.context import Context
from penstock.spark.pipelines.run.progress import RunProgress
from penstock.spark.pipelines.run.settings import RunSettings
from penstock.spark.reports import driver_tables, result_tables
from penstock.spark.reports.dead_letter_report import page_of, period_of, step_minutes
from penstock.spark.reports.html_page import Page, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND_US = 1_000_000


def context_of(broker: penstock.Broker, servers: str, lake: Path) -> Context:
    clock = SystemClock()
    run = RunSettings(name="dead_letters", lake=str(lake))
    return Context(run, broker, servers, clock, RunProgress(clock), once=True)


def bury(broker: penstock.Broker, topic: str) -> None:
    """Two errors: one with two keys and three messages, one that was rejected."""
    for key, value in (("anna", b"a"), ("anna", b"b"), ("bert", b"c"), ("carl", b"<script>d</script>")):
        broker.publish(topic, value, key=key)
    with broker.consumer(topic, group="g", max_attempts=1) as consumer:
        for _ in range(4):
            [message] = consumer.receive(wait="5s")
            if message.key == b"carl":
                message.reject("no good")
            else:
                message.nack(error=_failure(message.value))
    while broker.depth(topic, "g") or topic + ".dlq" not in broker.topics():
        broker.topics()
    while broker.describe_topic(topic + ".dlq").messages < 4:
        broker.topics()


def _failure(value: bytes) -> ValueError:
    try:
        raise ValueError(f"cannot read {value!r}")
    except ValueError as error:
        return error


def test_dead_letters_are_grouped_by_error(
    spark: "SparkSession", servers: str, broker: penstock.Broker, tmp_path: Path
) -> None:
    assert spark.version
    for topic in ("failing", "other"):
        broker.create_topic(topic, partitions=1)
        bury(broker, topic)
    context = context_of(broker, servers, tmp_path)
    report = tmp_path / "reports" / "dead.html"
    settings = dead_letters.Settings(topic=["failing"], report=str(report), samples=2)

    dead_letters.run(settings, context)

    first, second = driver_tables.read(result_tables.path_of(str(tmp_path), dead_letters.TABLE)).to_pylist()
    assert (first["topic"], first["count"], first["keys"], first["groups"]) == ("failing", 3, 2, ["g"])
    assert (first["error_class"], first["error"]) == ("ValueError", "ValueError: cannot read b'c'")
    assert (first["reason"], first["attempts"]) == ("nacked", 1.0)
    assert first["top_keys"] == [{"key": b"anna", "count": 2}, {"key": b"bert", "count": 1}]
    assert [sample["value"] for sample in first["samples"]] == [b"c", b"b"]
    assert first["samples"][0]["id"] == "failing.dlq:0:2"
    assert first["first"] <= first["last"] <= datetime.now(UTC)
    assert (second["count"], second["reason"]) == (1, "rejected")
    page = report.read_text()
    assert page.count("<svg") == 2
    assert "cannot read" in page
    assert "<script>" not in page
    assert context.lines[0].startswith("4 dead letters of 2 errors")
    assert context.lines[-1] == f"report: {report}"

    # A period in which there are none: the table is empty, and the report says so.
    late = dead_letters.Settings(from_time=datetime.now(UTC) + timedelta(hours=1), report=str(report))
    dead_letters.run(late, context_of(broker, servers, tmp_path))
    assert driver_tables.read(result_tables.path_of(str(tmp_path), dead_letters.TABLE)).num_rows == 0
    assert "<svg" not in report.read_text()

    # Nothing said: all topics.
    dead_letters.run(dead_letters.Settings(report=""), context_of(broker, servers, tmp_path))
    found = driver_tables.read(result_tables.path_of(str(tmp_path), dead_letters.TABLE)).to_pylist()
    assert {row["topic"] for row in found} >= {"failing", "other"}


def test_of_errors_of_one_millisecond_one_speaks_for_all_and_it_is_the_first_sample(
    spark: "SparkSession", servers: str, broker: penstock.Broker, tmp_path: Path
) -> None:
    assert spark.version
    broker.create_topic("instant.dlq", partitions=8)
    facts = {"x-source-topic": "instant", "x-error-fingerprint": "f"}
    letters = [
        penstock.Message(b"%d" % number, headers=facts | {"x-error": f"error {number}"}, partition=number % 8)
        for number in range(80)
    ]
    broker.publish_batch("instant.dlq", letters)
    written = [letter for number in range(8) for letter in broker.read("instant.dlq", partition=number)]
    newest = max(written, key=lambda letter: (letter.timestamp, letter.offset, letter.partition))

    settings = dead_letters.Settings(topic=["instant"], report="")
    dead_letters.run(settings, context_of(broker, servers, tmp_path))

    [row] = driver_tables.read(result_tables.path_of(str(tmp_path), dead_letters.TABLE)).to_pylist()
    assert (row["count"], row["error"]) == (80, newest.headers["x-error"])
    assert row["samples"][0]["value"] == newest.value


# The report, without Spark.


def an_error(number: int, count: int) -> dict[str, Any]:
    return {
        "topic": "orders", "fingerprint": f"f{number}", "error_class": "E", "error": f"E: {number} $x$",
        "reason": "nacked", "groups": ["g"], "count": count, "first": 0, "last": 7200 * SECOND_US,
        "attempts": 2.5, "keys": 1, "top_keys": [{"key": b"\xff<b>", "count": count}],
        "samples": [{"id": "orders.dlq:0:1", "time": 0, "key": None, "value": b"line\nline\x00"}],
    }  # fmt: skip


class Tags(HTMLParser):
    """Checks that tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_report_is_one_whole_file_whatever_the_payloads_are() -> None:
    errors = [an_error(number, 100 - number) for number in range(60)]
    bars = [{"topic": "orders", "fingerprint": "f0", "time": 0, "count": 100}] + [
        {"topic": "orders", "fingerprint": f"f{number}", "time": 7200, "count": 1} for number in range(1, 60)
    ]

    html = page_of(errors, bars, period_of(errors, None, None)).html()
    tags = Tags()
    tags.feed(html)

    assert tags.open == []
    assert r"\xff<b>" in tags.text
    assert r"line\nline\x00" in tags.text
    assert "from 1970-01-01 00:00 to 1970-01-01 02:00 UTC" in tags.text
    assert "10 rarer errors" in tags.text
    assert not re.search(r"(src|href)=.http", html)


def test_a_bar_stands_for_as_long_as_it_takes_to_have_some_sixty_of_them() -> None:
    def step(hours: float) -> int:
        return step_minutes([an_error(0, 1) | {"last": round(hours * 3600 * SECOND_US)}])

    assert [step(0), step(1), step(5), step(24), step(24 * 7), step(24 * 365)] == [1, 1, 5, 60, 180, 1440]


def test_what_is_shown_is_one_short_line() -> None:
    assert shown(b"a\nb\x1b[31m", 100) == r"a\nb\x1b[31m"
    assert shown("x" * 100, 10) == "x" * 9 + "…"
    assert shown(None, 10) == ""


def test_a_report_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(LakeUnusable, match="report cannot be written"):
        Page("title", "lead").write(str(tmp_path / "file" / "report.html"))
