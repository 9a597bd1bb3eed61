"""Steps that wait for nothing.

Not in ``steps.py``, which is compiled: this is the one place that needs a
function with any arguments, and what it makes is not on the way of a message.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from penstock.broker.steps import Steps

T = TypeVar("T")
P = ParamSpec("P")


def at_once(function: Callable[P, T]) -> Callable[P, Steps[T]]:
    """Steps that wait for nothing: the function is called when they are run, under the lock."""

    @wraps(function)
    def steps(*args: P.args, **options: P.kwargs) -> Steps[T]:
        yield from ()
        return function(*args, **options)

    return steps


def now(steps: Steps[T]) -> T:
    """The result of steps that wait for nothing, for a door on the driver's loop that cannot wait either."""
    try:
        next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("these steps wait")
