"""Work that waits for nothing, for brokers that are reached by requests."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from penstock.api.work import Work

T = TypeVar("T")
P = ParamSpec("P")


def at_once(function: Callable[P, T]) -> Callable[P, Work[T]]:
    """A request as the work that a facade hands to its driver."""

    @wraps(function)
    def work(*args: P.args, **options: P.kwargs) -> Work[T]:
        yield from ()
        return function(*args, **options)

    return work


def result_of(work: Work[T]) -> T:
    """Its result; such a broker does everything in the first step."""
    try:
        next(work)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it is over at once")
