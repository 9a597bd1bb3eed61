"""Credentials of a client, and the certificates it trusts.

    key                  an API key; default: environment variable PENSTOCK_KEY
    user, password       credentials of a user, if there is no key
    ca                   certificates to trust with penstocks://; default: PENSTOCK_CA, then the system's

The environment is read when a program connects, so that secrets need not be in its code
or on its command line.
"""

import os
import ssl
from collections.abc import Mapping
from typing import Any

from penstock.errors import InvalidValue

KEY_VARIABLE = "PENSTOCK_KEY"
CA_VARIABLE = "PENSTOCK_CA"


class ClientLogin:
    """Who a client is, and whom it trusts; checked."""

    def __init__(
        self,
        key: str | None = None,
        user: str | None = None,
        password: str | None = None,
        ca: str | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        environ = os.environ if environ is None else environ
        if key is None and user is None:
            key = environ.get(KEY_VARIABLE) or None
        for name, value in (("key", key), ("user", user), ("password", password)):
            if value is not None and not isinstance(value, str):
                raise InvalidValue(name=name, value="...", why="it is text")
        if (user is None) != (password is None) or (key is not None and user is not None):
            raise InvalidValue(name="user", value=user, why="give a key, or a user and a password")
        self.key = key
        self.user = user
        self.password = password
        self._ca = ca if ca is not None else environ.get(CA_VARIABLE) or None

    def tls(self) -> ssl.SSLContext:
        """How a connection over TLS is checked: the server's certificate, and its name."""
        try:
            context = ssl.create_default_context(cafile=self._ca)
        except (OSError, ssl.SSLError, TypeError) as error:
            why = f"name a file of certificates (PEM): {_words(error)}"
            raise InvalidValue(name="ca", value=self._ca, why=why) from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def _words(error: Any) -> str:
    return str(getattr(error, "strerror", None) or error).lower()
