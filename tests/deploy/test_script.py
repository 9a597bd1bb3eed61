"""The deploy script: what it asks docker, helm and kubectl for; stand-ins write their arguments down."""

import os
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

SCRIPT: Final = Path(__file__).parents[2] / "deploy" / "deploy.sh"
STAND_IN: Final = (
    '#!/bin/sh\necho "$(basename "$0") $*" | tee -a "$ASKED" | sed -n "s/.*logs.*/key psk_1/p"\n'
)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("docker", "helm", "kubectl"):
        (folder / name).write_text(STAND_IN)
        (folder / name).chmod(0o755)
    return folder


def run(programs: Path, *words: str, **environ: str) -> tuple[int, str, list[str]]:
    """The exit status, what it prints, and what was asked."""
    asked = programs / "asked"
    path = f"{programs}:{os.environ['PATH']}"
    done = subprocess.run(
        [SCRIPT, *words], env={**environ, "PATH": path, "ASKED": str(asked)}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, asked.read_text().splitlines() if asked.exists() else []


def test_it_deploys_the_chart_as_a_release_of_the_environment(programs: Path) -> None:
    status, _, [asked] = run(programs, "deploy", "dev", HELM_ARGS="--set service.type=LoadBalancer")

    assert status == 0
    assert asked == (
        "helm upgrade --install penstock-dev helm/penstock --namespace penstock-dev --create-namespace --wait"
        " --timeout 10m --set service.type=LoadBalancer"
    )
    assert (SCRIPT.parent / "helm" / "penstock" / "Chart.yaml").exists()


def test_the_image_is_built_of_the_repository(programs: Path) -> None:
    assert run(programs, "build", "1.0")[2] == ["docker build -f Dockerfile -t penstock:1.0 .."]


def test_the_key_of_the_first_admin_is_that_of_the_log(programs: Path) -> None:
    assert run(programs, "key", "dev")[1] == "psk_1\n"


def test_the_benchmark_runs_inside_the_cluster(programs: Path) -> None:
    _, _, [asked] = run(programs, "benchmark", "dev", PENSTOCK_KEY="psk_1")

    assert asked == (
        "kubectl --namespace penstock-dev exec statefulset/penstock-dev --"
        " env PENSTOCK_KEY=psk_1 penstock bench --server penstock://127.0.0.1:7070"
    )


def test_every_command_is_in_the_help_and_an_unknown_one_is_refused(programs: Path) -> None:
    _, shown, _ = run(programs)
    status, _, asked = run(programs, "destroy")

    commands = re.findall(r"^(\w+)\)$", SCRIPT.read_text(), re.MULTILINE)
    assert {"build", "deploy", "status", "url", "key", "benchmark", "delete"} == set(commands)
    assert all(f"./deploy.sh {command}" in shown for command in commands)
    assert (status, asked) == (1, [])
