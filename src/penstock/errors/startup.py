"""Errors of opening, starting and closing a broker or server."""

from penstock.errors.base import RequestError


class DirectoryInUse(RequestError):
    """Another process, or another broker in this process, has the data directory open.

    Cause: a broker is running on this directory, or one in this process was not closed.
    Do: close the other broker, connect to it instead, or open another directory.
    """

    code = "DIRECTORY_IN_USE"
    sentence = (
        "data directory {directory!r} is open in another broker (pid {pid}); "
        "close it, or use another directory"
    )
    directory: str
    pid: str


class DirectoryUnusable(RequestError):
    """The data directory cannot be created or written, or its format is newer than this version supports.

    Cause: missing permissions, a file in place of the directory, or data written by a newer version.
    Do: correct the permissions or the path, or run the version that wrote the data or a newer one.
    """

    code = "DIRECTORY_UNUSABLE"
    sentence = "data directory {directory!r} cannot be used: {why}"
    directory: str
    why: str


class InvalidConfiguration(RequestError):
    """The server configuration is invalid; the message lists every problem and where it is.

    Cause: an unknown setting or an invalid value in the file, an environment variable or a flag.
    Do: correct the listed problems and start again; ``penstock config show`` says where values come from.
    """

    code = "CONFIGURATION_INVALID"
    sentence = "the configuration is invalid:\n{problems}"
    problems: str


class AddressUnusable(RequestError):
    """The server cannot listen on the configured address.

    Cause: another program uses the port, the host is not an address of this machine, or the user may not
        use ports below 1024.
    Do: stop the other program, or change the setting or flag that the message names; port 0 picks a free
        port, and ``off`` disables the listener.
    """

    code = "ADDRESS_UNUSABLE"
    sentence = (
        "cannot listen on {address}: {why}; change listen.{listener} (--{listener} HOST:PORT), "
        "or turn it off (--{listener} off)"
    )
    listener: str
    address: str
    why: str


class ExtraMissing(RequestError):
    """A package that an optional feature needs is not installed.

    Cause: Penstock was installed without the extra for the feature, such as Spark.
    Do: install the extra that the message names.
    """

    code = "EXTRA_MISSING"
    sentence = "{what} is not installed; run: pip install 'penstock[{extra}]'"
    what: str
    extra: str


class Closed(RequestError):
    """The broker or consumer is closed.

    Cause: a call after ``close()`` or after the end of the ``with`` block.
    Do: open a new broker or consumer; stop the threads that use it before closing it.
    """

    code = "CLOSED"
    sentence = "the {what} is closed; open a new one"
    what: str
