"""The examples in Python, Go and TypeScript publish, receive and ack against a server.

Those that download and compile something take a minute the first time, so they run in the soak.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.frontends.serve.process import Process

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "grpc"
PATIENCE_S = 280  # A first build downloads its libraries.
OFF = ("--native", "off", "--text", "off", "--status", "off", "--http", "off", "--kafka", "off")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Of a server."""
    with Process(tmp_path / "data", *OFF, "--grpc", "127.0.0.1:0") as server:
        yield f"127.0.0.1:{server.port('grpc')}"


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True, check=False,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tool(name: str) -> str:
    """The path of a program; there may be none."""
    found = shutil.which(name) or shutil.which(name, path="/usr/local/go/bin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def there_and_back(said: str, language: str) -> None:
    lines = said.splitlines()
    published = [line for line in lines if line.startswith("published ")]
    received = sorted(line for line in lines if line.startswith("received "))
    assert len(published) == 3
    assert received == [f"received {value} from {language}, attempt 1" for value in ("one", "three", "two")]
    assert lines[-1] == "all acked"


@pytest.mark.slow
def test_the_example_in_python_works(address: str) -> None:
    there_and_back(run(sys.executable, EXAMPLES / "client.py", address, cwd=ROOT), "python")


@pytest.mark.soak
def test_the_example_in_go_works(address: str, tmp_path: Path) -> None:
    go = tool("go")
    source = tmp_path / "examples" / "grpc" / "go"
    shutil.copytree(EXAMPLES / "go", source)
    shutil.copytree(ROOT / "src" / "penstock" / "grpc", tmp_path / "src" / "penstock" / "grpc")
    path = os.pathsep.join([str(Path(go).parent), os.environ["PATH"]])

    run("./generate", cwd=source, PATH=path, PROTOC=f"{sys.executable} -m grpc_tools.protoc")
    run(go, "vet", ".", cwd=source)

    there_and_back(run(go, "run", ".", address, cwd=source), "go")


@pytest.mark.soak
def test_the_example_in_typescript_works(address: str, tmp_path: Path) -> None:
    npm, node = tool("npm"), tool("node")
    source = tmp_path / "typescript"
    shutil.copytree(EXAMPLES / "typescript", source, ignore=shutil.ignore_patterns("node_modules", "built"))
    proto = ROOT / "src" / "penstock" / "grpc" / "penstock.proto"

    run(npm, "install", "--no-audit", "--no-fund", cwd=source)
    run(npm, "run", "build", cwd=source)

    said = run(node, "built/main.js", address, cwd=source, PENSTOCK_PROTO=str(proto))
    there_and_back(said, "typescript")
