"""The container image: its Dockerfile, and the server that its build steps make."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from tests.deploy.dockerfile import FILE, ROOT, Image, bare_debian, instructions

LINES: Final = list(instructions(FILE.read_text()))
STORY: Final = """\
set -eu
ip link set lo up
mount --bind "$ROOT" "$ROOT"
mount --rbind /dev "$ROOT/dev"
mount -t tmpfs -o uid=10001,gid=10001,mode=0700 data "$ROOT/data"
mount -o remount,bind,ro "$ROOT"
chroot --userspec=10001:10001 "$ROOT" penstock serve > served & server=$!
until grep -qs ready served; do kill -0 $server; sleep 0.05; done
chroot --userspec=10001:10001 "$ROOT" sh -c "$CHECK" && echo healthy
chroot "$ROOT" touch /opt/file 2> refused || echo read-only
kill $server
wait $server && echo stopped
"""


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
@pytest.mark.skipif(os.geteuid() != 0, reason="chroot is for root")
@pytest.mark.skipif(shutil.which("debootstrap") is None, reason="there is no debootstrap here")
def test_the_server_that_the_build_steps_make_runs_as_in_a_container(tmp_path: Path) -> None:
    bare_debian(tmp_path / "root")
    image = Image(tmp_path / "root")

    image.build("build", "base", "installed-server")

    assert "compiled" in image.run("penstock --version")
    run_in_namespaces(image)


def run_in_namespaces(image: Image) -> None:
    """Start it and stop it: as its user, on a read-only root file system, with a network of its own."""
    check = json.loads(of("base", "HEALTHCHECK")[0].partition("CMD ")[2])
    environ = {**image.environ, "ROOT": str(image.root), "CHECK": shlex.join(check)}
    done = subprocess.run(
        ["unshare", "--mount", "--net", "sh", "-c", STORY], env=environ, capture_output=True, text=True,
        timeout=300, check=False, cwd=image.root.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == ["healthy", "read-only", "stopped"]
