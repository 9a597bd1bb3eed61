"""requirements/*.txt: what pyproject.toml asks for, each package with its version and its hashes."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ("build", "run", "dev")


def locked(name: str) -> dict[str, list[str]]:
    """Versions by package; some have another one for another Python."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    found: dict[str, list[str]] = {}
    for package, version in re.findall(r"^([a-z0-9.-]+)(?:\[\S+\])?==(\S+)", text, re.MULTILINE):
        found.setdefault(canonicalize_name(package), []).append(version)
    return found


def asked_for(name: str) -> Iterator[Requirement]:
    """What pyproject.toml wants to be in a lock, without ourselves."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = settings["project"]["optional-dependencies"]
    if name == "build":
        texts = settings["build-system"]["requires"]
    else:
        texts = [*settings["project"]["dependencies"], *extras["fast"], *extras["spark"]]
    if name == "dev":
        texts += [*extras["connect"], *extras["otel"], *group(settings["dependency-groups"], "dev")]
    yield from (each for each in map(Requirement, texts) if each.name != "penstock")


def group(groups: dict[str, list[Any]], name: str) -> Iterator[str]:
    for each in groups[name]:
        if isinstance(each, str):
            yield each
        else:
            yield from group(groups, each["include-group"])


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_what_the_project_asks_for(name: str) -> None:
    versions = locked(name)

    missing = [
        str(wanted)
        for wanted in asked_for(name)
        if not any(
            wanted.specifier.contains(version, prereleases=True)
            for version in versions.get(canonicalize_name(wanted.name), [])
        )
    ]

    assert not missing, "run `make lock`"


def test_a_package_has_the_same_version_in_every_lock() -> None:
    everything = locked("dev")

    for name in ("build", "run"):
        for package, versions in locked(name).items():
            assert everything.get(package, versions) == versions, package


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_files_by_their_hashes_and_not_where_they_are(name: str) -> None:
    entries = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
    packages = [line for line in entries if line and not line.startswith((" ", "#"))]
    hashes = [line for line in entries if line.startswith(" ")]

    assert packages
    assert all(re.fullmatch(r"[a-z0-9.\[\],-]+==\S+( ; .+)? \\", line) for line in packages)
    assert all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}( \\)?", line) for line in hashes)
