"""Access control: hosts, origins, API keys, users and grants."""

from penstock.errors.base import RequestError


class HostNotAllowed(RequestError):
    """The ``Host`` header of an HTTP request is not a name of this server, and authentication is off.

    Cause: DNS rebinding by a web page, or a host name that is missing from the configuration.
    Do: use the server's IP address or localhost, or add the name to ``http.hosts``; with
        ``security.authentication`` on, every name is accepted.
    """

    code = "HOST_NOT_ALLOWED"
    sentence = "{host!r} is not a name of this server; use its address, or add the name to http.hosts"
    host: str


class OriginNotAllowed(RequestError):
    """A browser sent an HTTP request for a page whose origin is not allowed.

    Cause: the page is from another origin, or a proxy between browser and server changes the ``Host`` header.
    Do: if you trust the page, add its origin to ``http.cors_origins``.
    """

    code = "ORIGIN_NOT_ALLOWED"
    sentence = "the origin {origin} is not allowed; to allow it, add it to http.cors_origins"
    origin: str


class Unauthenticated(RequestError):
    """Authentication is required, or the credentials are invalid.

    Cause: no API key and no user was given, the key was revoked, or the password is wrong.
    Do: pass a key: ``penstock.connect(url, key=...)``, or the environment variable ``PENSTOCK_KEY``. An admin
        creates one with ``penstock key create``.
    """

    code = "UNAUTHENTICATED"
    sentence = "{why}; pass a valid key: key=..., or PENSTOCK_KEY in the environment"
    why: str


class Forbidden(RequestError):
    """The caller is authenticated but not allowed to do this.

    Cause: no grant of the key or user includes the required role for that topic and group.
    Do: use another key, or ask an admin to grant the role named in the message (``penstock key create``,
        ``penstock user set``).
    """

    code = "FORBIDDEN"
    sentence = "{who} is not allowed to {operation} {on}; it needs the {role} role"
    who: str
    operation: str
    on: str
    role: str


class IdentityNotFound(RequestError):
    """The API key or user does not exist.

    Cause: it was revoked or deleted, or the name is misspelt; keys are identified by their id.
    Do: list the existing ones with ``penstock key list`` or ``penstock user list``.
    """

    code = "IDENTITY_NOT_FOUND"
    sentence = "there is no {kind} {name!r}; see: penstock {kind} list"
    kind: str
    name: str
