"""The AWS SDKs for Java and JavaScript, the AWS command line, and Dramatiq's SQS broker against a server.

They are downloaded, which takes minutes, so they run in the soak.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.frontends.serve.process import Process

SDKS = Path(__file__).parent / "sdks"
PATIENCE_S = 500  # The first download.
OFF = ("--native", "off", "--text", "off", "--status", "off", "--http", "off", "--kafka", "off")
RECEIVED = ["received one 1", "received two 0", "received three 0", "missing"]
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
}

pytestmark = pytest.mark.soak


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Of a server."""
    with Process(tmp_path / "data", *OFF, "--sqs", "127.0.0.1:0") as server:
        yield f"http://127.0.0.1:{server.port('sqs')}"


def run(*command: str | Path, cwd: Path) -> list[str]:
    """The lines that a program writes."""
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **CREDENTIALS}, capture_output=True, text=True, check=False,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def python_with(folder: Path, *packages: str) -> Path:
    """A new environment with some packages of the index."""
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    run(folder / "bin" / "pip", "install", "--quiet", *packages, cwd=folder.parent)
    return folder / "bin"


def test_the_sdk_for_java(url: str, tmp_path: Path) -> None:
    maven, java = tool("mvn"), tool("java")
    source = tmp_path / "java"
    shutil.copytree(SDKS / "java", source)

    run(maven, "-q", "-B", "compile", "dependency:build-classpath", "-Dmdep.outputFile=path", cwd=source)
    path = f"target/classes:{(source / 'path').read_text()}"

    assert run(java, "-cp", path, "Main", url, cwd=source) == RECEIVED


def test_the_sdk_for_javascript(url: str, tmp_path: Path) -> None:
    npm, node = tool("npm"), tool("node")
    source = tmp_path / "javascript"
    shutil.copytree(SDKS / "javascript", source)

    run(npm, "install", "--no-audit", "--no-fund", cwd=source)

    assert run(node, "main.js", url, cwd=source) == RECEIVED


def test_the_command_line(url: str, tmp_path: Path) -> None:
    programs = python_with(tmp_path / "environment", "awscli")

    assert run("sh", SDKS / "command_line.sh", programs / "aws", url, cwd=tmp_path) == RECEIVED


def test_dramatiq(url: str, tmp_path: Path) -> None:
    programs = python_with(tmp_path / "environment", "dramatiq", "dramatiq_sqs")

    [done] = run(programs / "python", SDKS / "dramatiq_jobs.py", url, cwd=tmp_path)

    assert done.split() == sorted([*(str(number + 1) for number in range(10)), "1001", "flaky"])
