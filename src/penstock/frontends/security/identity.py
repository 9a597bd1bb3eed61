"""Identities: an API key, a user, or anonymous."""

from base64 import b64decode
from typing import Final, Literal

import msgspec

from penstock.model.access import Permissions, Quota

Kind = Literal["key", "user", "nobody"]


class Identity(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """An identity that has logged in, with its grants at that time."""

    kind: Kind
    name: str  # The id of a key, the name of a user.
    called: str = ""  # What a key is for.
    permissions: Permissions = msgspec.field(default_factory=Permissions)
    quota: Quota = Quota()

    @property
    def id(self) -> tuple[Kind, str]:
        """A name that is unique among users and keys."""
        return self.kind, self.name

    def __str__(self) -> str:
        words = f"{self.kind} {self.name}".strip()
        return f"{words} ({self.called})" if self.called else words


# Every client of a server without logins, and clients that have not logged in yet.
NOBODY: Final = Identity(kind="nobody", name="")


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials: a key, or a user's name and password."""

    key: str | None = None
    user: str | None = None
    password: str | None = None

    @classmethod
    def of_header(cls, authorization: str) -> "Credentials":
        """The credentials in an Authorization header: ``Bearer <key>``, or ``Basic <base64>``."""
        scheme, _, rest = authorization.strip().partition(" ")
        if scheme.lower() == "bearer":
            return cls(key=rest.strip())
        if scheme.lower() == "basic":
            try:
                user, colon, password = b64decode(rest.strip(), validate=True).decode().partition(":")
            except ValueError:
                return cls()
            return cls(user=user, password=password) if colon else cls()
        return cls()
