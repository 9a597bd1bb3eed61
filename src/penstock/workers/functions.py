"""A function and its declaration, which is checked once."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from penstock.config.broker import GroupOptions, GroupSettings, settings_with
from penstock.errors import InvalidValue
from penstock.types import Duration, check_name, duration_ms, whole_number
from penstock.workers.message import AsyncWorkerMessage, WorkerMessage

CONCURRENCY_MAX: Final = 10_000  # What one consumer may hold by default (in_flight_max).
SCHEDULE_GROUP: Final = "workers"

_POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSchedule:
    """When a scheduled function runs."""

    cron: str
    timezone: str
    # A firing that no worker has taken for this long is left out; None keeps them all.
    ttl_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFunction:
    """One function of an app."""

    # As it is called in logs and, for a scheduled one, in its topic's name.
    name: str
    function: Callable[..., Any]
    topic: str
    group: str
    # Calls that run at once in this process.
    concurrency: int
    # A call that takes longer has failed; None: it may take forever.
    timeout_ms: int | None
    # Of the group, as they were given, with the visibility timeout always among them.
    options: GroupOptions
    settings: GroupSettings
    is_async: bool
    takes_message: bool
    # None: it works on what others publish.
    recurring: CronSchedule | None


def declare(
    function: Callable[..., Any],
    *,
    name: str | None,
    topic: str,
    group: str,
    concurrency: int,
    timeout: Duration | None,
    options: GroupOptions,
    recurring: CronSchedule | None = None,
) -> WorkerFunction:
    """Check what a decorator was given."""
    called = name or name_of(function)
    check_name("topic", topic)
    check_name("group", group)
    settings = settings_with(GroupSettings(), options)
    if settings.kind == "stream":
        why = (
            "a worker answers message by message, which needs a queue group; ordered=True keeps order by key"
        )
        raise InvalidValue(name="kind", value="stream", why=why)
    counts = _parameters(function)
    if not counts and recurring is None:
        why = "a worker's function takes one argument, the message"
        raise InvalidValue(name="function", value=called, why=why)
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(_call_of(function))
    if counts:
        _check_annotation(function, called, AsyncWorkerMessage if is_async else WorkerMessage)
    return WorkerFunction(
        name=called,
        function=function,
        topic=topic,
        group=group,
        concurrency=whole_number("concurrency", concurrency, 1, CONCURRENCY_MAX),
        timeout_ms=None if timeout is None else _positive_ms(timeout),
        options={**options, "visibility_timeout": settings.visibility_timeout_ms / 1000},
        settings=settings,
        is_async=is_async,
        takes_message=bool(counts),
        recurring=recurring,
    )


def check_called(decorator: str, first: str, example: str, value: object) -> None:
    """Refuse a decorator without parentheses, whose first argument is then the function itself."""
    if callable(value):
        why = f"{decorator} needs {first} in parentheses, such as {decorator}({example!r})"
        raise InvalidValue(name=first, value=name_of(value), why=why)


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function; a callable object has the name of its class."""
    return str(getattr(function, "__name__", type(function).__name__))


def name_part(text: str) -> str:
    """``text`` as part of a topic's or consumer's name, which may not have every character."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "function"


def _call_of(function: Callable[..., Any]) -> Any:
    return getattr(function, "__call__", None)  # noqa: B004 - not whether it can be called, but what is.


def _check_annotation(function: Callable[..., Any], called: str, given: type) -> None:
    """Refuse a function whose argument has an annotation that a message does not match."""
    wanted = _annotation(function)
    if wanted is None or any(_may_be(given, kind) for kind in _alternatives(wanted)):
        return
    shown = getattr(wanted, "__name__", None) or str(wanted)
    why = (
        f"its argument is annotated as {shown}, but a worker is called with a penstock.{given.__name__}; "
        "annotate it as penstock.Message and decode it with message.json(...) in the function"
    )
    raise InvalidValue(name="function", value=called, why=why)


def _annotation(function: Callable[..., Any]) -> Any:
    """How the first argument is annotated; None if it is not, or if that is unknown."""
    target = function if inspect.isroutine(function) else _call_of(function)
    try:
        first = next(iter(inspect.signature(function).parameters.values()))
        return get_type_hints(target).get(first.name)
    except Exception:  # noqa: BLE001 - an annotation may be any expression, and is only evaluated here.
        return None


def _alternatives(wanted: Any) -> tuple[Any, ...]:
    return get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)


def _may_be(given: type, kind: Any) -> bool:
    """Whether an argument of this kind accepts the message; in doubt it does."""
    kind = get_origin(kind) or kind
    try:
        return not isinstance(kind, type) or issubclass(given, kind)
    except TypeError:  # A protocol with data members.
        return True


def _positive_ms(timeout: Duration) -> int:
    limit_ms = duration_ms("timeout", timeout)
    if limit_ms < 1:
        raise InvalidValue(
            name="timeout", value=timeout, why="a timeout must be above 0; leave it out for no limit"
        )
    return limit_ms


def _parameters(function: Callable[..., Any]) -> int:
    """How many arguments the function is given: the message, or none."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # Built in, and silent about itself.
        return 1
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    needed = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if len(needed) > 1 or any(parameter.kind is parameter.KEYWORD_ONLY for parameter in needed):
        why = f"it needs {', '.join(parameter.name for parameter in needed)}, and is given the message alone"
        raise InvalidValue(name="function", value=name_of(function), why=why)
    return 1 if positional else 0
