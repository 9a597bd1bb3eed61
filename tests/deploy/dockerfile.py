"""Runs a Dockerfile's COPY and RUN lines without a container engine, in an empty directory.

Absolute paths of the image (/opt, /wheels, /src) become directories below that one.  Lines that change the
system (apt-get, users) are left out: they are Debian's, and the machine has what they install.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FILE: Final = ROOT / "deploy" / "Dockerfile"
OF_THE_SYSTEM: Final = ("apt-get", "groupadd", "install -d")


def instructions(text: str) -> Iterator[tuple[str, str, str]]:
    """Stage, instruction and arguments of each line; continued lines are joined."""
    stage = ""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for line in lines.replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            stage = rest.rpartition(" AS ")[2]
        if word:
            yield stage, word, rest.strip()


def run(directory: Path, *stages: str) -> None:
    """Carry out the stages in order; raises if a command fails."""
    source = directory / "src"
    source.mkdir()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    for stage, word, rest in instructions(FILE.read_text()):
        if stage not in stages:
            continue
        if word == "COPY" and not rest.startswith("--from"):
            *names, _ = rest.split()
            for name in names:
                copied = ROOT / name
                if copied.is_dir():
                    shutil.copytree(
                        copied, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.so")
                    )
                else:
                    shutil.copy(copied, source)
        elif word == "RUN" and not rest.startswith(OF_THE_SYSTEM):
            command = re.sub(r"(?<![\w.])/(opt|wheels)", rf"{directory}/\1", rest)
            command = re.sub(r"^python ", f"{sys.executable} ", command)
            subprocess.run(["sh", "-c", command], cwd=source, env=environ, check=True, timeout=1800)
