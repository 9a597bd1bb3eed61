"""Commands in a process of their own, where nothing has started Spark before: every pipeline, and SQL."""

import json
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.server.process import Server, environment
from tests.spark.cluster import PATIENCE_S

import penstock
from penstock.clock import SystemClock
from penstock.spark.pipelines import PIPELINES
from penstock.spark.pipelines.run import states

MINUTE_MS = 60_000

HANDLER = """
import penstock

app = penstock.App()

@app.worker("{topic}", group="invoices")
def handle(message: penstock.Message) -> None:
    raise KeyError("vat")
"""

# By pipeline: its settings, and what the command shows.
COMMANDS = {
    "archive": (["topic={topic}"], "2 of 2 records"),
    "replay": (["topic={topic}", "to={topic}-again"], "2 of 2 records"),
    "rollup": (["topic={topic}"], " batch"),  # Two, if a minute ends meanwhile.
    "dead_letters": (["topic={topic}", "report="], "1 dead letters of 1 errors"),
    "transform": (
        [
            "topic={topic}-out",
            "sql=select key, value from orders",
            'sources={{orders = {{topic = "{topic}"}}}}',
        ],
        "2 records",
    ),
    "rehearse": (["handler=shop:handle"], "handle over 2 messages of {topic}, as group invoices:"),
    "sql": ([], "answering queries"),
}


@pytest.fixture
def topic(broker: penstock.Broker, served: Server) -> str:
    """Two messages of five minutes ago, by a Kafka producer, one done and one a dead letter."""
    name = f"by_command_{uuid.uuid4().hex[:8]}"
    broker.create_topic(name)
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{served.ports['kafka']}"})
    for amount in (3, 5):
        published_ms = SystemClock().wall_ms() - 5 * MINUTE_MS
        producer.produce(name, json.dumps({"amount": amount}), partition=0, timestamp=published_ms)
    assert producer.flush(30) == 0
    with broker.consumer(name, group="invoices") as consumer:
        done, bad = consumer.receive(2, wait="30s")
        done.ack()
        bad.reject("no amount")
    return name


def command(*words: str, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of ours to its end."""
    return subprocess.run(
        [sys.executable, "-m", "penstock", *words],
        cwd=folder,
        env=environment() | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.jvm
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_pipeline_runs_by_its_command(pipeline: str, topic: str, servers: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(HANDLER.format(topic=topic))
    settings, shown = COMMANDS[pipeline]
    chosen = [word for each in settings for word in ("--set", each.format(topic=topic))]

    done = command(
        *("pipeline", "run", pipeline, "--once", "--server", servers, "--name", f"{topic}-{pipeline}"),
        *("--master", "local[1]", "--set", f"lake={tmp_path}/lake", *chosen),
        folder=tmp_path,
    )

    assert done.returncode == 0, done.stderr
    assert shown.format(topic=topic) in done.stdout + done.stderr


@pytest.mark.jvm
def test_a_session_that_is_kept_answers_without_spark_of_its_own(
    broker: penstock.Broker, topic: str, servers: str, tmp_path: Path
) -> None:
    keep = [sys.executable, "-m", "penstock", "sql", "--keep", "--master", "local[1]", "--server", servers]
    with subprocess.Popen(keep, env=environment(), stdin=subprocess.DEVNULL, text=True) as kept:
        try:
            until = time.monotonic() + PATIENCE_S
            while (run := states.runs(broker).get("sql")) is None or not run.sql_socket:
                assert kept.poll() is None
                assert time.monotonic() < until
                time.sleep(0.2)
            done = command(
                *("sql", f"select count(*) as n from {topic}", "-o", "csv", "--server", servers),
                folder=tmp_path,
                JAVA_HOME=str(tmp_path),  # Where there is no Java: its own Spark would not start.
            )
            stopped = command("pipeline", "stop", "sql", "--server", servers, folder=tmp_path)
            kept.wait(PATIENCE_S)
        finally:
            kept.kill()

    assert (done.returncode, done.stdout, done.stderr) == (0, "n\n2\n", "")
    assert (stopped.returncode, kept.returncode) == (0, 0)


@pytest.mark.jvm
def test_a_query_that_needs_only_some_rows_says_nothing_of_tasks_that_had_more(
    broker: penstock.Broker, servers: str, tmp_path: Path
) -> None:
    broker.create_topic("big", partitions=2)
    for _ in range(20):
        broker.publish_batch("big", [bytes(100)] * 10_000)
    query = "select offset, value from big limit 5"

    done = command("sql", query, "-o", "csv", "--server", servers, folder=tmp_path)

    assert (done.returncode, len(done.stdout.splitlines())) == (0, 6)
    assert "Error" not in done.stderr
    assert "Traceback" not in done.stderr
