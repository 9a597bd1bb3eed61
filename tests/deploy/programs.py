"""The programs of others that check what is in deploy/."""

import shutil
from pathlib import Path
from typing import Final

import pytest

BUILT: Final = Path(__file__).parents[2] / ".tools" / "bin"


def path_of(name: str) -> str | None:
    """Where it is: installed, or built by scripts/install-deploy-tools."""
    return shutil.which(name) or shutil.which(name, path=str(BUILT))


def needs(name: str) -> pytest.MarkDecorator:
    """Skips a test where a program is missing."""
    reason = f"{name} is not installed; scripts/install-deploy-tools builds it where there is Go"
    return pytest.mark.skipif(path_of(name) is None, reason=reason)
