"""The base classes of all errors: a wrong request, a temporary failure, and everything else.

A class declares the facts of its error as annotated fields, and its sentence as a template over them:

    class TopicNotFound(RequestError):
        code = "TOPIC_NOT_FOUND"
        sentence = "there is no topic {topic!r}; create it first, or check the name"
        topic: str

Fields are keyword arguments of the constructor, checked by mypy, and attributes of the error.
"""

import typing
from typing import Any, ClassVar

if typing.TYPE_CHECKING:
    import inspect

__all__ = ["PenstockError", "RequestError", "UnavailableError"]


class _FieldsSignature:
    """The keywords of an error class, for help(); ``inspect`` is imported only when they are asked for."""

    def __get__(self, _: object, kind: type["PenstockError"]) -> "inspect.Signature":
        from inspect import Parameter, Signature

        fields = [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation)
            for name, annotation in kind.__annotations__.items()
            if name in kind._fields
        ]
        return Signature(fields or [Parameter("facts", Parameter.VAR_KEYWORD)])


@typing.dataclass_transform(kw_only_default=True)
class PenstockError(Exception):
    """Base class of every error that Penstock raises on purpose.

    Cause: not raised itself, only its subclasses are, except for an internal fault of the server.
    Do: catch it to handle every error of the broker in one place.
    """

    code: ClassVar[str] = "INTERNAL"
    retryable: ClassVar[bool] = False
    sentence: ClassVar[str] = "{reason}"
    _fields: ClassVar[frozenset[str]] = frozenset()  # Empty: takes any facts.
    __signature__: ClassVar[Any] = _FieldsSignature()

    def __init_subclass__(cls) -> None:
        cls._fields = frozenset(cls.__annotations__)

    def __init__(self, **facts: Any) -> None:
        if self._fields and self._fields != facts.keys():
            raise TypeError(f"{type(self).__name__} takes {sorted(self._fields)}, not {sorted(facts)}")
        super().__init__(facts)
        self.facts = facts
        vars(self).update(facts)

    def __str__(self) -> str:
        return f"{self.sentence.format(**self.facts)} [{self.code}]"

    def __reduce__(self) -> Any:
        # Spark sends exceptions between processes, and the default pickling does not support keyword-only
        # constructors.  The state carries the code of an error from a newer server.
        return _rebuild, (type(self), self.facts), vars(self)


def _rebuild(kind: type[PenstockError], facts: dict[str, Any]) -> PenstockError:
    return kind(**facts)


class RequestError(PenstockError):
    """The request is invalid; repeating it unchanged fails again.

    Cause: not raised itself, except for an error of a newer server that this client has no class for.
    Do: read the message and change the call.
    """

    code = "BAD_REQUEST"

    def __init__(self, **facts: Any) -> None:  # Any facts; otherwise mypy would derive it from the fields.
        super().__init__(**facts)


class UnavailableError(PenstockError):
    """The request is valid, but the broker cannot serve it now.

    Cause: not raised itself, except for a temporary failure that has no class of its own.
    Do: retry with exponential backoff.
    """

    code = "UNAVAILABLE"
    retryable = True

    def __init__(self, **facts: Any) -> None:
        super().__init__(**facts)
