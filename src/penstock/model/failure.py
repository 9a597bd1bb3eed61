"""The error of a failed delivery: class, message, and a fingerprint to count by.

    Failure("KeyError", "'price'", "3f9a1c0b7d42")

The fingerprint is the same for the same bug at the same place, whatever the
message says, so that ten thousand dead letters become the three bugs they are:

    an error that was raised     its class, and the functions it came through: module, name, and the
                                 line counted from the function's first; so neither an edit above the
                                 function nor another order number makes it a new one
    text, or never raised        its class and its message, with numbers and addresses left out

Functions of Penstock itself are left out: how the work was called is no part
of the bug.  A function counts once however deep it calls itself.  What the
error was raised from (``raise A from B``) counts too, so that one ``except``
around everything does not make all bugs one.

The failure is created where the error occurred: by the client before it sends, or by the
embedded broker.  Tracebacks are not transmitted.
"""

import hashlib
import re
from types import TracebackType
from typing import Final, NamedTuple

MESSAGE_LENGTH_MAX: Final = 2000  # Characters that are kept; the rest is in the consumer's own log.
CAUSES_MAX: Final = 10  # Errors of a chain that are considered.
OWN: Final = __name__.partition(".")[0]


class Failure(NamedTuple):
    """An error as text, which can be sent and stored; all fields empty: no error was given."""

    error_class: str
    message: str
    fingerprint: str


NO_FAILURE: Final = Failure("", "", "")


def describe_error(error: BaseException | str | None) -> Failure:
    """An error in the form in which it is stored: bounded, and with its fingerprint."""
    if error is None:
        return NO_FAILURE
    if not isinstance(error, BaseException):
        message = _bounded(error)
        return Failure("", message, fingerprint("", message)) if message else NO_FAILURE
    error = _only(error)
    name, message = type(error).__name__, _bounded(error)
    frames = _frames(error)
    return Failure(name, message, _digest(frames) if frames else fingerprint(name, message))


def fingerprint(error_class: str, message: str) -> str:
    """A fingerprint that is equal for errors that differ only in numbers and addresses."""
    general = re.sub(r"0x[0-9a-fA-F]+|\d+", "#", message)
    return _digest([f"{error_class}:{general}"])


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "backslashreplace")).hexdigest()[:12]


def _bounded(error: object) -> str:
    try:
        text = str(error)[:MESSAGE_LENGTH_MAX]
    except Exception:  # noqa: BLE001 - a __str__ that raises must not stop the nack.
        text = "(it has no words)"
    return text.encode("utf-8", "backslashreplace").decode()[:MESSAGE_LENGTH_MAX]


def _only(error: BaseException) -> BaseException:
    """The only error in a group of one, as task groups raise them."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _frames(error: BaseException) -> list[str]:
    """The error's class and functions, and those of the errors that it was raised from.

    Empty if it came through nothing but Penstock, or was never raised.
    """
    lines = _functions(error.__traceback__)
    if not lines:
        return []
    lines.append(type(error).__qualname__)
    cause = error.__cause__
    for _ in range(CAUSES_MAX):
        if cause is None:
            break
        lines += [*_functions(cause.__traceback__), type(cause).__qualname__]
        cause = cause.__cause__
    return lines


def _functions(traceback: TracebackType | None) -> list[str]:
    """The functions of a traceback, outermost first, each once."""
    found: dict[str, None] = {}
    while traceback is not None:
        code = traceback.tb_frame.f_code
        module = str(traceback.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] != OWN:
            line = (traceback.tb_lineno or code.co_firstlineno) - code.co_firstlineno
            found[f"{module}:{code.co_qualname}+{line}"] = None
        traceback = traceback.tb_next
    return list(found)
