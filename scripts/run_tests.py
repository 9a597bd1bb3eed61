"""Run pytest, and run the few tests that failed a second time, alone.

The suite starts servers, kills processes and measures pauses on two shared cores, so one of 19,000 tests
may fail because the machine was busy.  Such a test passes when it runs alone; a broken one fails again, and
so does the run.  Every test that needed its second attempt is listed at the end: it is a weak test or,
worse, a race of the product.

A property test that failed runs its failing example again, because Hypothesis keeps it.  If more than
``RETRIED_MAX`` tests fail, the change is broken and nothing runs again.

Usage: python scripts/run_tests.py [arguments of pytest]
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

RETRIED_MAX = 6
TESTS_FAILED = 1  # pytest's exit code; others say that it was interrupted or called wrongly.


def run(arguments: list[str], cache: Path) -> int:
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *arguments]
    return subprocess.run(command, check=False).returncode


def failed(cache: Path) -> list[str]:
    """The ids of the tests that failed in the last run; a file that could not be collected has no tests."""
    path = cache / "v" / "cache" / "lastfailed"
    return sorted(name for name in json.loads(path.read_text()) if "::" in name) if path.exists() else []


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as directory:
        cache = Path(directory)
        code = run(arguments, cache)
        first = failed(cache)
        if code != TESTS_FAILED or not 0 < len(first) <= RETRIED_MAX:
            return code
        print(f"\n{len(first)} failed; running them once more, alone", flush=True)
        code = run([*arguments, "-n", "0", "--last-failed", "--last-failed-no-failures=none"], cache)
        again = failed(cache)
    for test in first:
        print(f"{'failed twice' if test in again else 'failed once, passed alone'}: {test}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
