"""What a dashboard that stays open costs the server: less than a hundredth of a processor."""

import json
import urllib.request
from pathlib import Path

import pytest
from tests.frontends.serve.process import Process

import penstock
from benchmarks.machine import cpu_seconds
from penstock.model.message import Message

TOPICS = 100
POLLS = 40
PART_MAX = 0.01


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_a_page_that_is_open_costs_less_than_a_hundredth_with_a_hundred_topics(tmp_path: Path) -> None:
    with Process(tmp_path / "data") as server, penstock.connect(server.said["native"]) as broker:
        for number in range(TOPICS):
            topic = f"topic-{number}"
            broker.create_topic(topic, partitions=6, durability="memory")
            for group in ("billing", "shipping"):
                broker.create_group(topic, group)
            broker.publish_batch(topic, [Message(b"x" * 100, key=f"{key}") for key in range(20)])

        def poll() -> int:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port('http')}/v1/overview") as answer:
                told = json.load(answer)
            assert (len(told["topics"]), len(told["groups"])) == (TOPICS, 2 * TOPICS)
            again_ms: int = told["again_ms"]
            return again_ms

        poll()
        before_s = cpu_seconds(server.pid)
        pauses_s = sum(poll() for _ in range(POLLS)) / 1000
        cost_s = cpu_seconds(server.pid) - before_s

    assert cost_s / pauses_s <= PART_MAX
