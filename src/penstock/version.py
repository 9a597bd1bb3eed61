"""The version of Penstock, and whether its hot modules are compiled.

The modules listed in pyproject.toml under ``hooks.mypyc`` are ordinary Python
that mypyc may compile.  Compiled or not, they do the same; only the speed
differs, so ``penstock --version`` says which it is.
"""

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from typing import Final

__version__: Final = "0.1.0"

# They are compiled all together or not at all, so one of them stands for all.
_WITNESS: Final = "penstock.wire.records"


def compiled() -> bool:
    """True if the hot modules of this installation are compiled."""
    spec = find_spec(_WITNESS)
    return spec is not None and spec.origin is not None and spec.origin.endswith(tuple(EXTENSION_SUFFIXES))


def version_line() -> str:
    """What ``penstock --version`` prints: ``penstock 0.1.0 (compiled)``."""
    return f"penstock {__version__} ({'compiled' if compiled() else 'interpreted'})"
