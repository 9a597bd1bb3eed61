"""Every error that this package raises on purpose.

    PenstockError
    ├── RequestError          the caller must change something; a retry fails in the same way
    ├── UnavailableError      temporary; nothing was changed, so try again later
    └── TopicDamaged, LakeDamaged, OutcomeUnknown, StorageFailed, CorruptionError

docs/errors.md lists all of them; ``make docs`` writes that page from the classes, and a test compares it.
Each class has a ``code`` that never changes, a docstring (meaning, ``Cause:``, ``Do:``), the facts of the
error as annotated fields, and a sentence, a template over the fields that says what happened and what to do.
The modules of this package group the classes by subject; programs import them from here.

Front ends raise no errors of their own.  Each of them maps ``code`` and ``retryable`` to its protocol in one
table, and a test checks that no class is missing from any table.  A bug is an ``AssertionError``, not one of
these classes.
"""

# ruff: noqa: F403, I001 - every class of every module, in the order of docs/errors.md.
from typing import TYPE_CHECKING

from penstock.errors.base import *
from penstock.errors.messages import *
from penstock.errors.topics import *
from penstock.errors.groups import *
from penstock.errors.producers import *
from penstock.errors.startup import *
from penstock.errors.requests import *
from penstock.errors.schemas import *
from penstock.errors.access import *
from penstock.errors.lake import *
from penstock.errors.unavailable import *
from penstock.errors.cluster import *
from penstock.errors.failures import *

if not TYPE_CHECKING:  # Type checkers see the imports; a computed __all__ would hide the names from them.
    __all__ = [name for name, value in globals().items() if isinstance(value, type)]
    for _name in __all__:
        globals()[_name].__module__ = __name__  # Tracebacks name an error as programs import it.
