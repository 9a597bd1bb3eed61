"""The three classes that sort all others: change the call, try again, or neither."""

from typing import Any, ClassVar


class PenstockError(Exception):
    """Base of the tree; catch this to catch everything below and nothing else.

    Cause: never raised as such; a class below it is.
    Do: catch it where any refusal of the broker is handled alike.
    """

    code: ClassVar[str] = "INTERNAL"
    retryable: ClassVar[bool] = False
    sentence: ClassVar[str] = "{reason}"

    def __init__(self, **facts: Any) -> None:
        super().__init__(facts)
        self.facts = facts

    def __str__(self) -> str:
        return f"{self.sentence.format(**self.facts)} [{self.code}]"

    def __reduce__(self) -> Any:
        # Spark ships exceptions between processes; keyword-only constructors
        # do not survive the default pickling.  The state is there for a code of
        # its own, which an error from a newer server has.
        return _rebuild, (type(self), self.facts), vars(self)


def _rebuild(kind: type[PenstockError], facts: dict[str, Any]) -> PenstockError:
    return kind(**facts)


class RequestError(PenstockError):
    """The request is wrong as it stands.

    Cause: never raised as such, except for a refusal that has no class of its own yet.
    Do: read the sentence and change the call; the same call fails the same way.
    """

    code = "BAD_REQUEST"


class UnavailableError(PenstockError):
    """The request is fine; the broker cannot serve it now.

    Cause: never raised as such, except for a passing state that has no class of its own yet.
    Do: wait a little, longer each time, and call again.
    """

    code = "UNAVAILABLE"
    retryable = True
