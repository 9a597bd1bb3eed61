"""Writes the Python code of src/penstock/grpc/penstock.proto: messages, stubs, and the types of both.

    python scripts/grpc_stubs.py            into src; `make generate` does this, too
    python scripts/grpc_stubs.py DIRECTORY  elsewhere, to compare

protoc comes with grpcio-tools, the types with mypy-protobuf.
"""

import os
import sys
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).parents[1]
SOURCE = "penstock/grpc/penstock.proto"
WRITTEN = tuple(f"penstock/grpc/penstock_pb2{end}" for end in (".py", ".pyi", "_grpc.py", "_grpc.pyi"))


def generate(into: Path) -> None:
    """Write the modules below this directory."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    outputs = [f"--{kind}_out={into}" for kind in ("python", "mypy", "grpc_python", "mypy_grpc")]
    well_known = str(files("grpc_tools") / "_proto")
    code = protoc.main(["protoc", f"-I{ROOT / 'src'}", f"-I{well_known}", *outputs, SOURCE])
    if code:
        raise SystemExit(code)


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "src")
