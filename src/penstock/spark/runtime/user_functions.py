"""Loads a user's function by name and pickles its package by value.

    function = "shop.reports:totals"      imported from the working directory, as for a worker

The driver imports the module, but executors on other machines do not have it.  So the
functions of all modules of its package are pickled by value, unless the package is
installed.
"""

import sysconfig
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from penstock.errors import InvalidValue
from penstock.workers.loading import NoSuchApp, load_object


def load_named(setting: str, target: str) -> tuple[ModuleType, Any]:
    """What is called ``module:name``, and its module; ``setting`` is what named it."""
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise InvalidValue(name=setting, value=target, why="write it as module:name")
    try:
        return load_object(module_name, name)
    except NoSuchApp as error:
        raise InvalidValue(name=setting, value=target, why=str(error)) from None


def load_function(setting: str, target: str) -> tuple[ModuleType, Callable[..., Any]]:
    """The function called ``module:name``, and its module."""
    module, found = load_named(setting, target)
    if not callable(found):
        raise InvalidValue(name=setting, value=target, why="it is not callable")
    return module, found


def ship(module: ModuleType) -> None:
    """Let what a module defines travel by value."""
    package = import_module(module.__name__.partition(".")[0])
    file = getattr(package, "__file__", None) or next(iter(getattr(package, "__path__", [])), "")
    if not file.startswith((sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"))):
        from pyspark import cloudpickle  # Only now: a worker's functions are also loaded without PySpark.

        cloudpickle.register_pickle_by_value(package)  # type: ignore[no-untyped-call]
