"""Compile the hot modules, beside the source tree and never inside it.

    src/penstock/...               what you edit; the virtual environment points here: interpreted
    .compiled/src/penstock/...     a copy, with the compiled modules beside their sources
    .compiled/dist/*.whl           the wheel that the build made on the way
    .compiled/digest               of what the compiled modules were made from

``PYTHONPATH=.compiled/src`` therefore runs the same code compiled, and nothing
else changes.  Where there is no C compiler the folder does not exist, Python
skips it on the path, and everything runs interpreted.  In CI, where both are
promised, a missing compiler is an error.

Why a copy: hatch-mypyc puts its libraries next to the sources it is given and
renames pyproject.toml while it works.  In a copy neither disturbs anybody.

Which modules are hot is said in pyproject.toml.  They are compiled again when
one of them changes, or any module they import, because mypyc copies constants
and layouts across modules; other changed modules are only copied.
"""

import ast
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
TARGET = ROOT / ".compiled"
# The build reads these besides the sources; the wheel would not be complete without them.
PROJECT_FILES = ("pyproject.toml", "LICENSE", "README.md")
COPIED = {".py", ".typed", ".properties", ".html", ".css", ".js", ".svg"}  # What a package is made of.


def main() -> int:
    """Bring .compiled up to date; 0 also when there is no compiler, except in CI."""
    missing = missing_tool()
    if missing:
        shutil.rmtree(TARGET, ignore_errors=True)
        print(
            f"compile: {missing}; Penstock runs interpreted, with the same results, slower", file=sys.stderr
        )
        return 1 if os.environ.get("CI") else 0
    settings = build_settings()
    hot = hot_modules(settings)
    wanted = digest(settings, hot)
    stamp = TARGET / "digest"
    if stamp.exists() and stamp.read_text() == wanted:
        copy_sources()
        return 0
    print(f"compile: {len(hot)} modules with mypyc, one or two minutes", file=sys.stderr)
    shutil.rmtree(TARGET, ignore_errors=True)
    copy_sources()
    if not build() or not all_compiled(hot):
        shutil.rmtree(TARGET)
        return 1
    stamp.write_text(wanted)
    return 0


def missing_tool() -> str:
    """What a C extension would need and this machine lacks; empty if nothing."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler here ({compiler})"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "there is a C compiler but no Python.h (install the python3-dev package)"
    return ""


def build_settings() -> dict[str, Any]:
    """The hook's table in pyproject.toml, where the hot modules are listed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    settings: dict[str, Any] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]
    return settings


def hot_modules(settings: dict[str, Any]) -> list[Path]:
    """The listed modules that exist, relative to src/."""
    return [Path(name).relative_to("src") for name in settings["include"] if (ROOT / name).exists()]


def digest(settings: dict[str, Any], hot: list[Path]) -> str:
    """Of everything that the compiled modules depend on."""
    tools = [sys.version, version("mypy"), version("hatch-mypyc")]
    total = hashlib.sha256(repr((tools, settings)).encode())
    for path in with_imports(hot):
        total.update((SOURCE / path).read_bytes())
    return total.hexdigest()


def with_imports(modules: list[Path]) -> list[Path]:
    """The modules and all of ours that they import, directly or not."""
    found: set[Path] = set()
    waiting = list(modules)
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += imported(path)
    return sorted(found)


def imported(path: Path) -> Iterator[Path]:
    """Our own modules that one module imports by name."""
    for node in ast.walk(ast.parse((SOURCE / path).read_text())):
        match node:
            case ast.ImportFrom(module=str(module)):
                names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
            case ast.Import():
                names = [alias.name for alias in node.names]
            case _:
                names = []
        for name in names:
            place = Path(*name.split("."))
            candidates = (place.with_suffix(".py"), place / "__init__.py")
            yield from (each for each in candidates if (SOURCE / each).exists())


def copy_sources() -> None:
    """Make .compiled/src the image of src, and leave the compiled libraries alone."""
    ours = {path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.suffix in COPIED}
    for path in ours:
        source, target = SOURCE / path, TARGET / "src" / path
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    for target in list((TARGET / "src").rglob("*.py")):
        if target.relative_to(TARGET / "src") not in ours:
            target.unlink()
    for name in PROJECT_FILES:
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, TARGET / name)


def build() -> bool:
    """Build the wheel of the copy; the compiled modules stay in the copy."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    environment = os.environ | {"HATCH_BUILD_HOOKS_ENABLE": "1"}
    done = subprocess.run(command, cwd=TARGET, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr, "compile: failed", sep="\n", file=sys.stderr)
    return done.returncode == 0


def all_compiled(hot: list[Path]) -> bool:
    """Each hot module must have its library: a silent fallback would make the promise empty."""
    missing = [path for path in hot if not list((TARGET / "src" / path.parent).glob(f"{path.stem}.*.so"))]
    for path in missing:
        print(f"compile: {path} was not compiled", file=sys.stderr)
    return not missing


if __name__ == "__main__":
    sys.exit(main())
