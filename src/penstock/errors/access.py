"""Who may ask: hosts and origins, keys and users, and what each is granted."""

from penstock.errors.base import RequestError


class HostNotAllowed(RequestError):
    """A request over HTTP names a host that this server does not go by, and the server asks for no login.

    Cause: a web page whose name was made to lead here; or the server has a name that it was not told.
    Do: call it by its address or as localhost, or put the name into ``http.hosts``; or turn on
        ``security.authentication``, and then every name is fine.
    """

    code = "HOST_NOT_ALLOWED"
    sentence = "{host!r} is no name of this server; call it by its address, or put the name into http.hosts"
    host: str


class OriginNotAllowed(RequestError):
    """A browser has sent a request over HTTP for a page that may not use this server.

    Cause: a page of another origin; or something between browser and server changes the header ``Host``.
    Do: if the page is one of yours, put its origin into ``http.cors_origins``.
    """

    code = "ORIGIN_NOT_ALLOWED"
    sentence = "pages of {origin} may not use this server; if they may, put it into http.cors_origins"
    origin: str


class Unauthenticated(RequestError):
    """The server wants to know who comes, and was not told, or not in a way that it could believe.

    Cause: no API key and no user was given, or the key was revoked, or the password is another one.
    Do: give a key: ``penstock.connect(url, key=...)``, or the variable ``PENSTOCK_KEY``. An admin makes one
        with ``penstock key create``.
    """

    code = "UNAUTHENTICATED"
    sentence = "{why}; give a key that is valid here: key=..., or PENSTOCK_KEY in the environment"
    why: str


class Forbidden(RequestError):
    """Whoever asks is known, and may not do this.

    Cause: none of the grants of the key or the user has the role that it needs, on that topic and group.
    Do: use another key, or have an admin grant the role that the sentence names (``penstock key create``,
        ``penstock user set``).
    """

    code = "FORBIDDEN"
    sentence = "{who} may not {operation} {on}: it needs the role {role} there; ask an admin for it"
    who: str
    operation: str
    on: str
    role: str


class IdentityNotFound(RequestError):
    """There is no API key, or no user, of that name.

    Cause: it was revoked or deleted, or the name is misspelt; a key is named by its id.
    Do: look at what there is: ``penstock key list``, ``penstock user list``.
    """

    code = "IDENTITY_NOT_FOUND"
    sentence = "there is no {kind} {name!r}; see: penstock {kind} list"
    kind: str
    name: str
