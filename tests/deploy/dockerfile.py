"""Carries out a Dockerfile without a container engine: its lines run with chroot in a directory with Debian.

All stages share this directory, so ``COPY --from`` has nothing to do.  The image of Python is replaced by
Debian's Python, which debootstrap installs.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FILE: Final = ROOT / "deploy" / "Dockerfile"
PACKAGES: Final = (
    "python3,python3-venv,python3-dev,python-is-python3,ca-certificates"  # As the image of Python.
)
OF_THE_HOST: Final = (
    "etc/resolv.conf",
    "etc/hosts",
    "etc/ssl/certs/ca-certificates.crt",
)  # To reach an index.


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


def bare_debian(root: Path) -> None:
    """A Debian with Python and nothing else."""
    make = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root)]
    subprocess.run(make, check=True, timeout=1800, stdout=subprocess.DEVNULL)
    for name in OF_THE_HOST:
        if Path("/", name).exists():
            shutil.copyfile(Path("/", name), root / name)


class Image:
    """What the stages have made so far."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environ = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        self._directory = "/"

    def build(self, *stages: str) -> None:
        """Carry out the lines of these stages; raises if a command fails."""
        pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        for stage, word, rest in instructions(FILE.read_text()):
            if stage not in stages:
                continue
            if word == "WORKDIR":
                self._directory = rest
                self.inside(rest).mkdir(parents=True, exist_ok=True)
            elif word == "ENV":
                settings = dict(each.split("=", 1) for each in rest.split())
                self.environ |= {
                    name: value.replace("$PATH", self.environ["PATH"]) for name, value in settings.items()
                }
            elif word == "COPY" and not rest.startswith("--from"):
                *names, target = rest.split()
                for name in names:
                    self._copy(ROOT / name, self.inside(self._directory) / target)
            elif word == "RUN":
                self.run(rest, pip)

    def run(self, command: str, more: Mapping[str, str] | None = None) -> str:
        """What a command prints, in the directory of the image."""
        in_place = f"cd {self._directory} && {command}"
        done = subprocess.run(
            ["chroot", self.root, "sh", "-c", in_place], env={**self.environ, **(more or {})},
            stdout=subprocess.PIPE, text=True, check=True, timeout=3600,
        )  # fmt: skip
        return done.stdout

    def inside(self, path: str) -> Path:
        """Where the host has a path of the image."""
        return self.root / path.lstrip("/")

    def _copy(self, source: Path, target: Path) -> None:
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(source, target)
