"""The error of a value that does not match its schema, as all kinds of schemas raise it."""


class Mismatch(ValueError):  # noqa: N818 - it reads better.
    """A value that does not match: where in it, and why."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where = where
        self.why = why
