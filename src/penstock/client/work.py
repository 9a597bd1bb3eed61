"""Coroutines as the ``Work`` that facades hand to their drivers, and back."""

import types
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from penstock.api.work import Work

T = TypeVar("T")
P = ParamSpec("P")


def work(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Work[T]]:
    """An ``async def`` whose call begins work that a driver runs."""

    @wraps(function)
    def begin(*args: P.args, **options: P.kwargs) -> Work[T]:
        return function(*args, **options).__await__()

    return begin


@types.coroutine
def run(begun: Work[T]) -> Generator[Any, Any, T]:
    """Await work that was begun."""
    return (yield from begun)
