"""The compose files: what they mount exists, and their settings are those of a server that starts.

compose-go, which Docker Compose is made of, validates them (``scripts/install-deploy-tools``).
"""

import re
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.deploy.programs import needs, path_of
from tests.store import stores

from penstock.clock import SystemClock
from penstock.config.loading import load
from penstock.store.opening import open_store

FOLDER: Final = Path(__file__).parents[2] / "deploy" / "compose"
IMAGE: Final = (FOLDER.parent / "Dockerfile").read_text()
FILES: Final = ("one-node.yml", "cluster.yml", "monitoring.yml")


def services(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text())["services"]
    return found


def nodes(name: str) -> dict[str, Any]:
    return {key: each for key, each in services(name).items() if "penstock" in each["image"]}


@pytest.mark.parametrize("name", FILES)
def test_the_settings_of_every_node_are_valid(name: str) -> None:
    of_the_image = dict(re.findall(r"(PENSTOCK_\w+)=(\S+)", IMAGE))

    for node in nodes(name).values():
        load(environ={**of_the_image, **node.get("environment", {})})


@pytest.mark.parametrize("name", FILES)
def test_every_node_has_a_volume_a_read_only_root_and_ports_on_this_machine_alone(name: str) -> None:
    assert nodes(name)
    for node in nodes(name).values():
        assert node["read_only"]
        assert node["cap_drop"] == ["ALL"]
        assert [mount.partition(":")[2] for mount in node["volumes"]] == ["/data"]
        assert all(port.startswith("127.0.0.1:") for port in node.get("ports", []))


@pytest.mark.parametrize("name", FILES)
def test_every_file_that_is_mounted_exists(name: str) -> None:
    for service in services(name).values():
        for mount in service.get("volumes", []):
            source = mount.partition(":")[0]
            assert not source.startswith(".") or (FOLDER / source).exists()


def test_a_cluster_has_three_nodes_with_numbers_of_their_own() -> None:
    numbers = [node["environment"]["PENSTOCK_CLUSTER__NODE"] for node in nodes("cluster.yml").values()]

    assert numbers == ["1", "2", "3"]


def test_a_node_of_the_cluster_accepts_its_store() -> None:
    [*_, node] = nodes("cluster.yml").values()
    options = node["environment"]["PENSTOCK_CLUSTER__STORE"].partition("@store/penstock")[2]

    with stores.postgresql() as url, closing(open_store(url + options, SystemClock())) as store:
        assert store.create("name", b"content")


@needs("compose-go")
@pytest.mark.parametrize("name", FILES)
def test_compose_accepts_the_files(name: str, tmp_path: Path) -> None:
    required = re.compile(r"\$\{\w+:\?[^}]*\}")  # compose-go alone reads no environment.
    (tmp_path / name).write_text(required.sub("given", (FOLDER / name).read_text()))

    done = subprocess.run(
        [str(path_of("compose-go")), tmp_path / name], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr


def test_grafana_and_prometheus_are_set_up() -> None:
    source = yaml.safe_load((FOLDER / "grafana/provisioning/datasources/prometheus.yml").read_text())
    scraped = yaml.safe_load((FOLDER / "prometheus/prometheus.yml").read_text())

    assert source["datasources"][0]["url"] == "http://prometheus:9090"
    assert scraped["scrape_configs"][0]["static_configs"][0]["targets"] == ["penstock:8080"]
    assert scraped["rule_files"] == ["alerts.yml"]
