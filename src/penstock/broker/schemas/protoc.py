"""Compiles .proto files with protoc, in a separate process with a time limit.

protoc is C++ and reads untrusted input, so it does not share the broker's memory.  Called from a thread
(``steps.aside``): it takes some 100 ms.
"""

import subprocess
import sys
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from penstock.errors import ExtraMissing, SchemaInvalid

SECONDS_MAX: Final = 10
WHY_MAX: Final = 1000
_CHATTER: Final = ("WARNING:", "W0000", "I0000")  # Lines of its log.
_MAIN: Final = "schema.proto"
_PROGRAM: Final = (
    "import sys; from grpc_tools import protoc; sys.exit(protoc.main(['protoc', *sys.argv[1:]]))"
)


def compiled(text: str, references: Mapping[str, str]) -> str:
    """The ``FileDescriptorProto`` of a .proto file, in base64; ``references`` are texts by import name."""
    try:
        import grpc_tools  # type: ignore[import-not-found,unused-ignore]
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
    except ImportError:
        raise ExtraMissing(what="protoc (grpcio-tools)", extra="schema") from None
    with TemporaryDirectory(prefix="penstock-protoc-") as directory:
        root = Path(directory)
        for name, content in {**references, _MAIN: text}.items():
            try:
                path = (root / name).resolve()
                if not path.is_relative_to(root.resolve()):
                    raise SchemaInvalid(type="PROTOBUF", why=f"the import {name!r} is not a relative path")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
            except (OSError, ValueError):
                why = f"the import {name[:100]!r} cannot be a file beside the others"
                raise SchemaInvalid(type="PROTOBUF", why=why) from None
        well_known = Path(grpc_tools.__file__).parent / "_proto"
        output = root / ".descriptors"
        command = [
            sys.executable, "-I", "-c", _PROGRAM,
            f"-I{root}", f"-I{well_known}", f"--descriptor_set_out={output}", _MAIN,
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, timeout=SECONDS_MAX, check=False, cwd=root)
        except subprocess.TimeoutExpired:
            raise SchemaInvalid(type="PROTOBUF", why=f"protoc did not end within {SECONDS_MAX} s") from None
        if done.returncode:
            lines = done.stderr.decode(errors="replace").replace(str(root) + "/", "").splitlines()
            why = " ".join(line for line in lines if not line.startswith(_CHATTER)).strip()
            raise SchemaInvalid(type="PROTOBUF", why=why[:WHY_MAX] or "protoc failed")
        file = FileDescriptorSet.FromString(output.read_bytes()).file[0]
        return b64encode(file.SerializeToString()).decode()
