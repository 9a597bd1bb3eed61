"""Ships Penstock to the executors of a cluster as an archive that Spark distributes and unpacks.

    driver:  penstock-<digest>.zip in the user's cache ── spark.archives ──> every executor
             penstock, pyspark_penstock, and the compiled packages they need

``addPyFile`` is not used because compiled packages cannot be imported from a zip.  The
nodes need the driver's Python version and architecture, PySpark, PyArrow and
``deltalake`` (129 MB; tasks look up deleted offsets in the lake).  The shipped version
takes precedence over an installed one, so driver and executors always match.  The
libraries of ``penstock[schema]``, with which typed topics are read, are part of it if the
driver has them.

Spark also runs Python next to the driver, to find data sources and plan reads.  If that
Python (``PYSPARK_PYTHON``) lacks Penstock, it finds the archive's content through its
PYTHONPATH (``visible``).

Building the archive takes a second, once per version: its name contains a digest of its
content, which takes 0.1 s.  It has 16 MB, 4 MB of them without the libraries of schemas.
"""

import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import penstock.wire.records  # Compiled or not: with it comes the library of all compiled modules.

PACKAGES: Final = ("penstock", "pyspark_penstock")
DEPENDENCIES: Final = ("msgspec", "crc32c", "cramjam", "librt")  # Compiled, and not of Spark's.
SCHEMA_LIBRARIES: Final = ("fastavro", "jsonschema-rs", "protobuf")
FOLDER: Final = "penstock_shipped"  # The archive's name on an executor.
LIBRARY: Final = "__mypyc"  # How the name of such a library ends.
LEFT_OUT: Final = (".pyc", ".pyi", ".c")
PYTHONPATH: Final = "spark.executorEnv.PYTHONPATH"
ARCHIVES: Final = "spark.archives"


def shipping_settings(config: dict[str, str]) -> dict[str, str]:
    """Spark's settings with the archive added to what they say already."""
    archives = [each for each in (config.get(ARCHIVES), f"{archive()}#{FOLDER}") if each]
    paths = [each for each in (FOLDER, config.get(PYTHONPATH)) if each]
    return config | {ARCHIVES: ",".join(archives), PYTHONPATH: os.pathsep.join(paths)}


def archive(*, schema_libraries: bool = True) -> Path:
    """The archive, made if there is none of this content."""
    dependencies = DEPENDENCIES + (_installed(SCHEMA_LIBRARIES) if schema_libraries else ())
    entries = dict(sorted((name, path.read_bytes()) for name, path in _files(dependencies)))
    digest = hashlib.sha256()
    for name, content in entries.items():
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"
    target = cache / f"penstock-{digest.hexdigest()[:16]}.zip"
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f"{target.name}.{os.getpid()}")  # Another process may be at it, too.
        with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
            for name, content in entries.items():
                made.writestr(name, content)
        fresh.replace(target)
    return target


@contextmanager
def visible(python: str) -> Iterator[None]:
    """Whatever is started meanwhile, and runs that Python, can import Penstock."""
    found = shutil.which(python) or python
    if os.path.abspath(found) == os.path.abspath(sys.executable):  # Not the real paths: venvs share them.
        yield
        return
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_unpacked()), before]))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _unpacked() -> Path:
    """A folder with the content of the archive."""
    made = archive()
    folder = made.with_suffix("")
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
            with zipfile.ZipFile(made) as packed:
                packed.extractall(f"{fresh}/content")
            with suppress(OSError):  # Another process may be faster.
                Path(fresh, "content").rename(folder)
    return folder


def _installed(names: Iterable[str]) -> tuple[str, ...]:
    """The packages that this environment has."""
    found = []
    for name in names:
        with suppress(PackageNotFoundError):
            found.append(distribution(name).metadata["Name"])
    return tuple(found)


def _files(dependencies: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """What goes into the archive: names there, and where they are here."""
    for package in PACKAGES:
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec is not None else []:
            for path in Path(folder).rglob("*"):
                if path.is_file() and path.suffix not in LEFT_OUT:
                    yield f"{package}/{path.relative_to(folder)}", path
    for dependency in dependencies:
        for file in distribution(dependency).files or []:  # With what it says of itself: some look that up.
            if file.suffix not in LEFT_OUT and ".." not in file.parts:
                yield str(file), Path(str(file.locate()))
    beside = Path(penstock.wire.records.__file__).parents[2]
    for name, module in list(sys.modules.items()):
        if name.endswith(LIBRARY) and module.__file__ and Path(module.__file__).parent == beside:
            yield Path(module.__file__).name, Path(module.__file__)
