"""The container image: its Dockerfile, and the server that its build steps make."""

import json
import subprocess
from pathlib import Path
from typing import Final

import pytest
from tests.deploy.dockerfile import FILE, ROOT, instructions, run

LINES: Final = list(instructions(FILE.read_text()))


def of(stage: str, word: str) -> list[str]:
    return [rest for each, name, rest in LINES if (each, name) == (stage, word)]


@pytest.mark.parametrize("target", ["server", "spark"])
def test_an_image_runs_as_another_user_than_root(target: str) -> None:
    assert of(target, "USER") == ["10001:10001"]
    assert of(target, "FROM") == [f"base AS {target}"]


def test_the_image_without_spark_is_the_one_that_is_built_by_default() -> None:
    assert LINES[-1][0] == "server"
    assert "run.txt" not in " ".join(of("installed-server", "RUN"))


def test_the_image_has_a_health_check_and_is_stopped_by_a_signal_to_the_server_itself() -> None:
    [check] = of("base", "HEALTHCHECK")
    assert "/health" in check
    assert of("base", "STOPSIGNAL") == ["SIGTERM"]
    assert json.loads(of("base", "ENTRYPOINT")[0]) == ["penstock"]


def test_every_file_that_is_copied_exists_and_every_package_is_locked() -> None:
    for _, word, rest in LINES:
        if word == "COPY" and not rest.startswith("--from"):
            assert all((ROOT / name).exists() for name in rest.split()[:-1])
        if word == "RUN" and "pip install" in rest:
            assert "--require-hashes" in rest or "--no-deps /wheels" in rest


@pytest.mark.soak
def test_the_build_steps_make_a_compiled_server(tmp_path: Path) -> None:
    run(tmp_path, "build", "installed-server")

    penstock = tmp_path / "opt" / "penstock" / "bin" / "penstock"
    version = subprocess.run(
        [penstock, "--version"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    shown = subprocess.run(
        [penstock, "config", "show", "-o", "json"], capture_output=True, text=True, check=True, cwd=tmp_path
    )

    assert "compiled" in version.stdout
    assert len(shown.stdout.splitlines()) > 100
