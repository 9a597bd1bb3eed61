"""Finds the app that ``penstock worker module:app`` names, and other objects of modules.

The module is imported as ``python -m module`` would: from the working directory,
then from wherever Python looks.  An error inside the module is its own, and is
shown as Python shows it; a wrong name is one sentence.
"""

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from penstock.workers.app import App

USUAL_NAME: Final = "app"


class NoSuchApp(Exception):  # noqa: N818 - it is what is said to the user.
    """There is no app of that name; the text says why, and what there is instead."""


def load_app(target: str) -> App:
    """The app called ``package.module:name``; without a name it is called ``app``."""
    module_name, _, name = target.partition(":")
    name = name or USUAL_NAME
    module, found = load_object(module_name, name)
    if not isinstance(found, App):
        raise NoSuchApp(f"{module_name}:{name} is no penstock.App, but {_kind(found)}{_instead(module)}")
    if not found.functions:
        raise NoSuchApp(f"{module_name}:{name} has no functions; decorate some with @{name}.worker(topic)")
    return found


def load_object(module_name: str, name: str) -> tuple[ModuleType, Any]:
    """What a module calls ``name``, and the module; ``NoSuchApp`` says why there is none."""
    if "/" in module_name or module_name.endswith(".py"):
        dotted = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise NoSuchApp(f"{module_name!r} is a file; name it as a module, {dotted}:{name}")
    module = _import(module_name)
    return module, _attribute(module, name)


def _import(name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    if not all(part.isidentifier() for part in name.split(".")):
        raise NoSuchApp(f"{name!r} is no name of a module; use one like shop.tasks:app")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise NoSuchApp(f"there is no module {error.name!r} in {here} or where Python looks") from None
        raise  # The module is there, and imports something that is not.


def _attribute(module: ModuleType, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise NoSuchApp(f"module {module.__name__!r} has no {name!r}{_instead(module)}") from None
    return found


def _instead(module: ModuleType) -> str:
    apps = sorted(name for name, value in vars(module).items() if isinstance(value, App))
    return f"; it has {', '.join(f'{module.__name__}:{name}' for name in apps)}" if apps else ""


def _kind(value: object) -> str:
    return "a class" if isinstance(value, type) else f"of type {type(value).__name__}"
